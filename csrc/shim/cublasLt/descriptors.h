// What cuBLASLt's semi-opaque structures hold, and their attributes by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "shim/cublasLt/cublasLt_types.h"

namespace ph::cublas_lt {

// Each begins with its own mark, so that memory that was never initialised is an error and not a product.
struct Layout {
  std::uint64_t mark;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int64_t batch_stride, plane_offset;
  std::int32_t type, order, batch_count;
  std::uint32_t batch_mode;
};

struct MatmulDescription {
  std::uint64_t mark;
  std::int32_t compute_type, scale_type, pointer_mode, transa, transb, transc, fill_mode;
  std::uint32_t epilogue;
  const void* bias;
  std::int64_t bias_stride;
  void* aux;
  std::int64_t aux_leading, aux_stride, alpha_vector_stride, alpha_stride, beta_stride;
  const void *a_scale, *b_scale, *c_scale, *d_scale, *d_out_scale, *aux_scale;
  void *amax_d, *aux_amax;
  const void* emulation;
  std::int32_t sm_count, aux_type, bias_type;
  std::int32_t a_scale_mode, b_scale_mode, c_scale_mode, d_scale_mode, aux_scale_mode, d_out_scale_mode;
  std::int8_t fast_accumulation;
};

struct Preference {
  std::uint64_t mark;
  std::uint64_t workspace_bytes, implementation_mask;
  std::uint32_t search_mode, reduction_mask, alignment_a, alignment_b, alignment_c, alignment_d;
  float max_waves;
};

struct Algorithm {
  std::uint64_t mark;
  std::int32_t id;
  std::uint32_t tile, split_k, reduction, swizzling, custom, stages;
  std::uint16_t inner_shape, cluster_shape;
};

inline constexpr std::uint64_t kLayoutMark = 0x54554f59414c5450;       // "PTLAYOUT"
inline constexpr std::uint64_t kMatmulMark = 0x4c554d54414d5450;       // "PTMATMUL"
inline constexpr std::uint64_t kPreferenceMark = 0x5246455250545450;   // "PTTPREFR"
inline constexpr std::uint64_t kAlgorithmMark = 0x4f474c4154545450;    // "PTTTALGO"

static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(MatmulDescription) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

inline Layout* layout_of(cublasLtMatrixLayout_t handle) noexcept {
  auto* layout = reinterpret_cast<Layout*>(handle);
  return layout && layout->mark == kLayoutMark ? layout : nullptr;
}

inline MatmulDescription* matmul_of(cublasLtMatmulDesc_t handle) noexcept {
  auto* matmul = reinterpret_cast<MatmulDescription*>(handle);
  return matmul && matmul->mark == kMatmulMark ? matmul : nullptr;
}

inline Preference* preference_of(cublasLtMatmulPreference_t handle) noexcept {
  auto* preference = reinterpret_cast<Preference*>(handle);
  return preference && preference->mark == kPreferenceMark ? preference : nullptr;
}

inline Algorithm* algorithm_of(cublasLtMatmulAlgo_t* handle) noexcept {
  auto* algorithm = reinterpret_cast<Algorithm*>(handle);
  return algorithm && algorithm->mark == kAlgorithmMark ? algorithm : nullptr;
}

// A row of an attribute table: the vendor's number, and the field that holds its value.
struct Attribute {
  int number;
  std::size_t offset, bytes;
};

inline const Attribute* find_attribute(std::span<const Attribute> attributes, int number) noexcept {
  for (const Attribute& attribute : attributes) {
    if (attribute.number == number) return &attribute;
  }
  return nullptr;
}

inline cublasStatus_t set_attribute(std::span<const Attribute> attributes, void* object, int number, const void* value,
                                    std::size_t bytes) noexcept {
  const Attribute* attribute = find_attribute(attributes, number);
  if (!object || !attribute || !value || bytes != attribute->bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<char*>(object) + attribute->offset, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// With no room the vendor only tells how much is needed.
inline cublasStatus_t get_attribute(std::span<const Attribute> attributes, const void* object, int number, void* value,
                                    std::size_t bytes, std::size_t* written) noexcept {
  const Attribute* attribute = find_attribute(attributes, number);
  if (!object || !attribute || (bytes == 0 && !written)) return CUBLAS_STATUS_INVALID_VALUE;
  if (written) *written = attribute->bytes;
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
  if (!value || bytes != attribute->bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, static_cast<const char*>(object) + attribute->offset, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace ph::cublas_lt
