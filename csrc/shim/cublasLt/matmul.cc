// cuBLASLt: library handle, choice of an algorithm, and the product itself.
//
// A cuBLAS handle is a valid cuBLASLt handle with the vendor, and PyTorch passes one, so a handle is only asked
// not to be null.
#include <cstring>

#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/core/handles.h"
#include "shim/cublasLt/descriptors.h"
#include "shim/launch/gemm.h"
#include "shim/values/values.h"

using namespace ph::cublas_lt;
using ph::HostCost;

namespace ph::cublas_lt {
namespace {

struct LibraryHandle {};
constinit HandleTable<LibraryHandle> libraries(HandleTag::CublasLt);

constexpr std::int32_t kAlgorithmId = 0;  // the only one we offer: the timing model stands for the best

struct Operands {
  const MatmulDescription* matmul;
  const Layout *a, *b, *c, *d;

  bool complete() const noexcept { return matmul && a && b && c && d; }
};

Operands operands(cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) noexcept {
  return {matmul_of(matmul), layout_of(a), layout_of(b), layout_of(c), layout_of(d)};
}

bool is_fp8(std::int32_t type) noexcept { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

// The few combinations that programs probe for. Source: cuBLAS documentation, cublasLtMatmul, FP8 kernels.
cublasStatus_t check(const Operands& of) noexcept {
  if (!of.complete()) return CUBLAS_STATUS_INVALID_VALUE;
  const std::uint64_t k_of_a = of.matmul->transa == CUBLAS_OP_N ? of.a->columns : of.a->rows;
  const std::uint64_t k_of_b = of.matmul->transb == CUBLAS_OP_N ? of.b->rows : of.b->columns;
  if (k_of_a != k_of_b) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_fp8(of.a->type) && !is_fp8(of.b->type)) return CUBLAS_STATUS_SUCCESS;

  const std::int64_t capability = config().number("gpu.major") * 10 + config().number("gpu.minor");
  if (capability < 89) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool is_tn = of.matmul->transa == CUBLAS_OP_T && of.matmul->transb == CUBLAS_OP_N;
  return is_tn || capability >= 100 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// A mode without a pointer is the default that nobody set.
std::uint8_t scale(const void* pointer, std::int32_t mode) noexcept {
  return pointer ? static_cast<std::uint8_t>(mode + 1) : 0;
}

bool reads_c(const MatmulDescription& matmul, const void* beta) noexcept {
  if (matmul.pointer_mode != CUBLASLT_POINTER_MODE_HOST) return true;
  constexpr unsigned char kZero[16] = {};
  return std::memcmp(beta, kZero, number_bytes(static_cast<std::uint32_t>(matmul.scale_type))) != 0;
}

Gemm gemm_of(const Operands& of, const void* beta) noexcept {
  const MatmulDescription& matmul = *of.matmul;
  Gemm gemm{};
  gemm.m = of.d->rows;
  gemm.n = of.d->columns;
  gemm.k = matmul.transa == CUBLAS_OP_N ? of.a->columns : of.a->rows;
  gemm.lda = of.a->leading;
  gemm.ldb = of.b->leading;
  gemm.ldc = of.c->leading;
  gemm.ldd = of.d->leading;
  gemm.batch_count = static_cast<std::uint32_t>(of.d->batch_count);
  if (of.d->batch_mode != 0) {
    gemm.batch = GemmBatch::PointerArray;
  } else if (of.d->batch_count > 1) {
    gemm.batch = GemmBatch::Strided;
    gemm.stride_a = of.a->batch_stride;
    gemm.stride_b = of.b->batch_stride;
    gemm.stride_c = of.c->batch_stride;
    gemm.stride_d = of.d->batch_stride;
  }
  gemm.epilogue = matmul.epilogue;
  gemm.a = static_cast<std::uint16_t>(of.a->type);
  gemm.b = static_cast<std::uint16_t>(of.b->type);
  gemm.c = static_cast<std::uint16_t>(of.c->type);
  gemm.d = static_cast<std::uint16_t>(of.d->type);
  gemm.compute = static_cast<std::uint16_t>(matmul.compute_type);
  gemm.transa = static_cast<std::uint8_t>(matmul.transa);
  gemm.transb = static_cast<std::uint8_t>(matmul.transb);
  gemm.order_a = static_cast<std::uint8_t>(of.a->order);
  gemm.order_b = static_cast<std::uint8_t>(of.b->order);
  gemm.order_c = static_cast<std::uint8_t>(of.c->order);
  gemm.order_d = static_cast<std::uint8_t>(of.d->order);
  gemm.scale_a = scale(matmul.a_scale, matmul.a_scale_mode);
  gemm.scale_b = scale(matmul.b_scale, matmul.b_scale_mode);
  gemm.library = GemmLibrary::CublasLt;
  gemm.reads_c = reads_c(matmul, beta);
  return gemm;
}

// What the epilogue writes beside D.
void forget_outputs(const MatmulDescription& matmul, const void* workspace) noexcept {
  ph::forget_reached({workspace, matmul.d_out_scale, matmul.aux_amax});
  constexpr std::uint32_t kGradients = 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
  if (matmul.epilogue & kGradients) forget_reached({matmul.bias});
  if (matmul.aux) forget_reached({matmul.aux});
  if (matmul.amax_d) forget_reached({matmul.amax_d});
}

cublasLtMatmulHeuristicResult_t the_algorithm() noexcept {
  cublasLtMatmulHeuristicResult_t result{};
  Algorithm algorithm{};
  algorithm.mark = kAlgorithmMark;
  algorithm.id = kAlgorithmId;
  algorithm.split_k = 1;
  std::memcpy(&result.algo, &algorithm, sizeof algorithm);
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1.0f;
  return result;
}

#define PH_ALGORITHM(number, field) \
  {CUBLASLT_ALGO_CONFIG_##number, offsetof(Algorithm, field), sizeof(Algorithm::field)}
constexpr Attribute kAlgorithm[] = {
    PH_ALGORITHM(ID, id),
    PH_ALGORITHM(TILE_ID, tile),
    PH_ALGORITHM(SPLITK_NUM, split_k),
    PH_ALGORITHM(REDUCTION_SCHEME, reduction),
    PH_ALGORITHM(CTA_SWIZZLING, swizzling),
    PH_ALGORITHM(CUSTOM_OPTION, custom),
    PH_ALGORITHM(STAGES_ID, stages),
    PH_ALGORITHM(INNER_SHAPE_ID, inner_shape),
    PH_ALGORITHM(CLUSTER_SHAPE_ID, cluster_shape),
};

}  // namespace
}  // namespace ph::cublas_lt

extern "C" {

PH_EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) noexcept {
  PH_CALL(cublasLtCreate, HostCost::Setup);
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = static_cast<cublasLtHandle_t>(libraries.create());
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

PH_EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) noexcept {
  PH_CALL(cublasLtDestroy, HostCost::Setup);
  return libraries.destroy(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

PH_EXPORT size_t cublasLtGetVersion() noexcept {
  PH_CALL(cublasLtGetVersion);
  return CUBLAS_VERSION;
}

PH_EXPORT size_t cublasLtGetCudartVersion() noexcept {
  PH_CALL(cublasLtGetCudartVersion);
  return 13020;  // the runtime of the same release
}

PH_EXPORT cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) noexcept {
  PH_CALL(cublasLtGetProperty);
  constexpr int kVersion[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = kVersion[type];
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                                                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                        cublasLtMatmulPreference_t preference, int requested,
                                                        cublasLtMatmulHeuristicResult_t results[],
                                                        int* returned) noexcept {
  PH_CALL(cublasLtMatmulAlgoGetHeuristic);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!preference_of(preference) || requested < 1 || !results || !returned) return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  const cublasStatus_t status = check(operands(matmul, a, b, c, d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  results[0] = the_algorithm();
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType_t,
                                                  cudaDataType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                                  int requested, int ids[], int* returned) noexcept {
  PH_CALL(cublasLtMatmulAlgoGetIds);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested < 1 || !ids || !returned) return CUBLAS_STATUS_INVALID_VALUE;
  ids[0] = kAlgorithmId;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType_t,
                                                cudaDataType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                                cublasLtMatmulAlgo_t* algorithm) noexcept {
  PH_CALL(cublasLtMatmulAlgoInit);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!algorithm || id < 0) return CUBLAS_STATUS_INVALID_VALUE;
  *algorithm = the_algorithm().algo;
  algorithm_of(algorithm)->id = id;
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                                                 cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                 const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulHeuristicResult_t* result) noexcept {
  PH_CALL(cublasLtMatmulAlgoCheck);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!algorithm || !result) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = check(operands(matmul, a, b, c, d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const cublasLtMatmulAlgo_t checked = *algorithm;  // may be part of `result`
  *result = the_algorithm();
  result->algo = checked;
  return CUBLAS_STATUS_SUCCESS;
}

PH_EXPORT cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                              cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                              const void* value, size_t bytes) noexcept {
  PH_CALL(cublasLtMatmulAlgoConfigSetAttribute);
  return set_attribute(kAlgorithm, algorithm_of(algorithm), attribute, value, bytes);
}

PH_EXPORT cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                              cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                              void* value, size_t bytes, size_t* written) noexcept {
  PH_CALL(cublasLtMatmulAlgoConfigGetAttribute);
  return get_attribute(kAlgorithm, algorithm_of(const_cast<cublasLtMatmulAlgo_t*>(algorithm)), attribute, value, bytes,
                       written);
}

PH_EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, const void* alpha,
                                        const void*, cublasLtMatrixLayout_t a, const void*, cublasLtMatrixLayout_t b,
                                        const void* beta, const void*, cublasLtMatrixLayout_t c, void* D,
                                        cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t*, void* workspace, size_t,
                                        cudaStream_t stream_handle) noexcept {
  PH_CALL(cublasLtMatmul, HostCost::Library);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  const Operands of = operands(matmul, a, b, c, d);
  const cublasStatus_t status = check(of);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const ph::StreamRef stream = ph::resolve_stream(stream_handle);
  if (!stream.valid) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (of.d->rows == 0 || of.d->columns == 0) return CUBLAS_STATUS_SUCCESS;

  ph::emit_gemm(gemm_of(of, beta), stream, D);
  forget_outputs(*of.matmul, workspace);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
