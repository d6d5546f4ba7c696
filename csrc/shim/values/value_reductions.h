// Reductions (at::native::reduce_kernel) and concatenations of small tensors, carried out.
//
// Source of layouts: aten/src/ATen/native/cuda/Reduce.cuh and Shape.cu, as of PyTorch 2.15. Sums of floating-point
// numbers are added in index order, in double precision; a GPU's order differs, and so may the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shim/kernels/kernel_structures.h"
#include "shim/values/scalars.h"

namespace ph {

enum class Reducer : std::uint8_t { Unknown, Sum, Product, Max, Min, Any, All, Mean };

// Of a ReduceOp, which is the kernel's only argument.
struct ReductionRule {
  Reducer reducer = Reducer::Unknown;  // Unknown: only the outputs are found
  Scalar input = Scalar::None;
  Scalar output = Scalar::None;
  Scalar factor = Scalar::None;  // of a mean: what the sum is multiplied with
};

// `name`: demangled. Nothing: not a reduction.
std::optional<ReductionRule> parse_reduction(std::string_view name);
// False: the structure is not what the name promises.
bool apply_reduction(const ReductionRule& rule, const LaunchShape& shape, const void* operation) noexcept;
// Where a ReduceOp writes, on the device or in pinned memory. None: the structure is no such one.
std::vector<const void*> reduction_results(const LaunchShape& shape, const void* operation);

inline constexpr std::size_t kMostCatDimensions = 4;

// Of CatArrayBatchedCopy and its variants.
struct ConcatenationRule {
  std::size_t element_bytes = 0;
  std::size_t unit_elements = 1;  // that are moved as one
  std::size_t index_bytes = 4;
  std::size_t dimensions = 0;
  std::size_t capacity = 0;  // inputs that the structure has room for
  bool has_strides = false;  // of the inputs
};

std::optional<ConcatenationRule> parse_concatenation(std::string_view name);
bool apply_concatenation(const ConcatenationRule& rule, const LaunchShape& shape, void* const* arguments) noexcept;

}  // namespace ph
