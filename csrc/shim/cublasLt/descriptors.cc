// Creation, destruction and attributes of cuBLASLt's descriptors.
#include "shim/cublasLt/descriptors.h"

#include <new>

#include "shim/calls/library.h"

namespace ph::cublas_lt {
namespace {

#define PH_FIELD(number, Struct, field) {number, offsetof(Struct, field), sizeof(Struct::field)}

constexpr Attribute kLayout[] = {
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, Layout, type),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, Layout, order),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, Layout, rows),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, Layout, columns),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_LD, Layout, leading),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, Layout, batch_count),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Layout, batch_stride),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, Layout, plane_offset),
    PH_FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, Layout, batch_mode),
};

#define PH_MATMUL(number, field) PH_FIELD(CUBLASLT_MATMUL_DESC_##number, MatmulDescription, field)
constexpr Attribute kMatmul[] = {
    PH_MATMUL(COMPUTE_TYPE, compute_type),
    PH_MATMUL(SCALE_TYPE, scale_type),
    PH_MATMUL(POINTER_MODE, pointer_mode),
    PH_MATMUL(TRANSA, transa),
    PH_MATMUL(TRANSB, transb),
    PH_MATMUL(TRANSC, transc),
    PH_MATMUL(FILL_MODE, fill_mode),
    PH_MATMUL(EPILOGUE, epilogue),
    PH_MATMUL(BIAS_POINTER, bias),
    PH_MATMUL(BIAS_BATCH_STRIDE, bias_stride),
    PH_MATMUL(EPILOGUE_AUX_POINTER, aux),
    PH_MATMUL(EPILOGUE_AUX_LD, aux_leading),
    PH_MATMUL(EPILOGUE_AUX_BATCH_STRIDE, aux_stride),
    PH_MATMUL(ALPHA_VECTOR_BATCH_STRIDE, alpha_vector_stride),
    PH_MATMUL(SM_COUNT_TARGET, sm_count),
    PH_MATMUL(A_SCALE_POINTER, a_scale),
    PH_MATMUL(B_SCALE_POINTER, b_scale),
    PH_MATMUL(C_SCALE_POINTER, c_scale),
    PH_MATMUL(D_SCALE_POINTER, d_scale),
    PH_MATMUL(AMAX_D_POINTER, amax_d),
    PH_MATMUL(EPILOGUE_AUX_DATA_TYPE, aux_type),
    PH_MATMUL(EPILOGUE_AUX_SCALE_POINTER, aux_scale),
    PH_MATMUL(EPILOGUE_AUX_AMAX_POINTER, aux_amax),
    PH_MATMUL(FAST_ACCUM, fast_accumulation),
    PH_MATMUL(BIAS_DATA_TYPE, bias_type),
    PH_MATMUL(A_SCALE_MODE, a_scale_mode),
    PH_MATMUL(B_SCALE_MODE, b_scale_mode),
    PH_MATMUL(C_SCALE_MODE, c_scale_mode),
    PH_MATMUL(D_SCALE_MODE, d_scale_mode),
    PH_MATMUL(EPILOGUE_AUX_SCALE_MODE, aux_scale_mode),
    PH_MATMUL(D_OUT_SCALE_POINTER, d_out_scale),
    PH_MATMUL(D_OUT_SCALE_MODE, d_out_scale_mode),
    PH_MATMUL(EMULATION_DESCRIPTOR, emulation),
    PH_MATMUL(ALPHA_BATCH_STRIDE, alpha_stride),
    PH_MATMUL(BETA_BATCH_STRIDE, beta_stride),
};

#define PH_PREFERENCE(number, field) PH_FIELD(CUBLASLT_MATMUL_PREF_##number, Preference, field)
constexpr Attribute kPreference[] = {
    PH_PREFERENCE(SEARCH_MODE, search_mode),
    PH_PREFERENCE(MAX_WORKSPACE_BYTES, workspace_bytes),
    PH_PREFERENCE(REDUCTION_SCHEME_MASK, reduction_mask),
    PH_PREFERENCE(MIN_ALIGNMENT_A_BYTES, alignment_a),
    PH_PREFERENCE(MIN_ALIGNMENT_B_BYTES, alignment_b),
    PH_PREFERENCE(MIN_ALIGNMENT_C_BYTES, alignment_c),
    PH_PREFERENCE(MIN_ALIGNMENT_D_BYTES, alignment_d),
    PH_PREFERENCE(MAX_WAVES_COUNT, max_waves),
    PH_PREFERENCE(IMPL_MASK, implementation_mask),
};

Layout new_layout(cudaDataType type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) noexcept {
  Layout layout{};
  layout.mark = kLayoutMark;
  layout.type = type;
  layout.rows = rows;
  layout.columns = columns;
  layout.leading = leading;
  layout.batch_count = 1;
  return layout;
}

MatmulDescription new_matmul(cublasComputeType_t compute, cudaDataType scale) noexcept {
  MatmulDescription matmul{};
  matmul.mark = kMatmulMark;
  matmul.compute_type = compute;
  matmul.scale_type = scale;
  matmul.fill_mode = CUBLAS_FILL_MODE_FULL;
  matmul.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  matmul.aux_type = matmul.bias_type = -1;
  return matmul;
}

Preference new_preference() noexcept {
  Preference preference{};
  preference.mark = kPreferenceMark;
  preference.reduction_mask = 7;  // every reduction scheme
  preference.alignment_a = preference.alignment_b = preference.alignment_c = preference.alignment_d = 256;
  preference.implementation_mask = ~0ull;
  return preference;
}

// Into memory of the program, whose size tells which version of the structure it was compiled with.
template <class Content, class Opaque>
cublasStatus_t initialise(Opaque* opaque, std::size_t bytes, const Content& content) noexcept {
  if (!opaque || bytes < sizeof(Content)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(opaque, 0, bytes);
  std::memcpy(opaque, &content, sizeof content);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Content, class Opaque>
cublasStatus_t create(Opaque** handle, const Content& content) noexcept {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new (std::nothrow) Opaque;
  return *handle ? initialise(*handle, sizeof(Opaque), content) : CUBLAS_STATUS_ALLOC_FAILED;
}

template <class Content, class Opaque>
cublasStatus_t destroy(Opaque* handle, Content* content) noexcept {
  if (!content) return CUBLAS_STATUS_INVALID_VALUE;
  content->mark = 0;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace ph::cublas_lt

using namespace ph::cublas_lt;

extern "C" {

PH_EXPORT cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes,
                                                           cudaDataType type, uint64_t rows, uint64_t columns,
                                                           int64_t leading) noexcept {
  PH_CALL(cublasLtMatrixLayoutInit_internal);
  return initialise(layout, bytes, new_layout(type, rows, columns, leading));
}

PH_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                                    uint64_t columns, int64_t leading) noexcept {
  PH_CALL(cublasLtMatrixLayoutCreate);
  return create(layout, new_layout(type, rows, columns, leading));
}

PH_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) noexcept {
  PH_CALL(cublasLtMatrixLayoutDestroy);
  return destroy(layout, layout_of(layout));
}

PH_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                          cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                          size_t bytes) noexcept {
  PH_CALL(cublasLtMatrixLayoutSetAttribute);
  return set_attribute(kLayout, layout_of(layout), attribute, value, bytes);
}

PH_EXPORT cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                          cublasLtMatrixLayoutAttribute_t attribute, void* value,
                                                          size_t bytes, size_t* written) noexcept {
  PH_CALL(cublasLtMatrixLayoutGetAttribute);
  return get_attribute(kLayout, layout_of(layout), attribute, value, bytes, written);
}

PH_EXPORT cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t matmul, size_t bytes,
                                                         cublasComputeType_t compute, cudaDataType_t scale) noexcept {
  PH_CALL(cublasLtMatmulDescInit_internal);
  return initialise(matmul, bytes, new_matmul(compute, scale));
}

PH_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmul, cublasComputeType_t compute,
                                                  cudaDataType_t scale) noexcept {
  PH_CALL(cublasLtMatmulDescCreate);
  return create(matmul, new_matmul(compute, scale));
}

PH_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul) noexcept {
  PH_CALL(cublasLtMatmulDescDestroy);
  return destroy(matmul, matmul_of(matmul));
}

PH_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                                        cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                        size_t bytes) noexcept {
  PH_CALL(cublasLtMatmulDescSetAttribute);
  return set_attribute(kMatmul, matmul_of(matmul), attribute, value, bytes);
}

PH_EXPORT cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t matmul,
                                                        cublasLtMatmulDescAttributes_t attribute, void* value,
                                                        size_t bytes, size_t* written) noexcept {
  PH_CALL(cublasLtMatmulDescGetAttribute);
  return get_attribute(kMatmul, matmul_of(matmul), attribute, value, bytes, written);
}

PH_EXPORT cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                               size_t bytes) noexcept {
  PH_CALL(cublasLtMatmulPreferenceInit_internal);
  return initialise(preference, bytes, new_preference());
}

PH_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) noexcept {
  PH_CALL(cublasLtMatmulPreferenceCreate);
  return create(preference, new_preference());
}

PH_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) noexcept {
  PH_CALL(cublasLtMatmulPreferenceDestroy);
  return destroy(preference, preference_of(preference));
}

PH_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                              cublasLtMatmulPreferenceAttributes_t attribute,
                                                              const void* value, size_t bytes) noexcept {
  PH_CALL(cublasLtMatmulPreferenceSetAttribute);
  return set_attribute(kPreference, preference_of(preference), attribute, value, bytes);
}

PH_EXPORT cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                              cublasLtMatmulPreferenceAttributes_t attribute,
                                                              void* value, size_t bytes, size_t* written) noexcept {
  PH_CALL(cublasLtMatmulPreferenceGetAttribute);
  return get_attribute(kPreference, preference_of(preference), attribute, value, bytes, written);
}

}  // extern "C"
