// Source: aten/src/ATen/native/cuda/jit_utils.cpp, jit_code_template, jit_vectorized_code_template and
// reduction_template, as PyTorch 2.8 and 2.15 give them to NVRTC.
#include "shim/kernels/kernel_compiled.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace ph {
namespace {

using Kind = SizeReader::Kind;

// NAME_vectorizedN_kernel(int N, Array<char*, operands> data, scalar, ...) or NAME_kernel(int numel, Array<char*,
// operands> data, two offset calculators, a loader, a storer, scalar, ...).
struct Pointwise {
  std::uint32_t operands;  // inputs and outputs
  bool is_vectorized;      // its code has each access twice: for full blocks and for the last one
  bool casts;              // operands have types of their own
};

// Of a loader or storer: a byte of type for each operand, then 32 bits of size each; an empty structure casts nothing.
constexpr std::uint16_t cast_bytes(std::size_t operands) {
  return static_cast<std::uint16_t>((operands + 3) / 4 * 4 + 4 * operands);
}

bool is_named(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

std::optional<Pointwise> as_pointwise(const CompiledKernel& kernel) noexcept {
  constexpr std::size_t kScalar = 2, kLoader = 4, kStorer = 5, kParameters = 7;
  const auto bytes = kernel.parameter_bytes;
  if (!kernel.name.ends_with("_kernel") || bytes.size() <= kScalar || bytes[0] != sizeof(std::int32_t) ||
      bytes[1] < 2 * sizeof(void*) || bytes[1] % sizeof(void*) != 0)
    return std::nullopt;
  Pointwise found{.operands = static_cast<std::uint32_t>(bytes[1] / sizeof(void*)),
                  .is_vectorized = is_named(kernel.name, "_vectorized"),
                  .casts = false};
  if (found.is_vectorized) return found;
  if (bytes.size() < kParameters) return std::nullopt;
  found.casts = bytes[kLoader] != 1;
  const bool is_plain = bytes[kLoader] == 1 && bytes[kStorer] == 1;
  const bool is_casting = bytes[kLoader] == cast_bytes(found.operands - 1) && bytes[kStorer] == cast_bytes(1);
  return is_plain || is_casting ? std::optional(found) : std::nullopt;
}

}  // namespace

ArgumentPlan plan_compiled(const CompiledKernel& kernel) {
  ArgumentPlan plan;
  constexpr std::size_t kLeastStructure = 256;  // two offset calculators are larger
  if (kernel.name.starts_with("reduction_") && kernel.name.ends_with("_kernel") && kernel.parameter_bytes.size() == 1 &&
      kernel.parameter_bytes[0] >= kLeastStructure) {
    // Halves are added up in single precision.
    const std::uint32_t narrow = kernel.narrowest_store_bytes < 4 ? kernel.narrowest_store_bytes : 0;
    plan.readers.push_back({.kind = Kind::CompiledReduction, .parameter = 0, .element_bytes = narrow});
  }
  if (const auto pointwise = as_pointwise(kernel); pointwise && pointwise->casts) {
    plan.integers.push_back({.parameter = 0, .bytes = 4, .is_signed = true});
    plan.readers.push_back({.kind = Kind::LoadCast, .parameter = 4, .count = pointwise->operands - 1});
    plan.readers.push_back({.kind = Kind::StoreCast, .parameter = 5, .count = 1});
  }
  return plan;
}

std::uint32_t pointwise_thread_bytes(const CompiledKernel& kernel) noexcept {
  const auto pointwise = as_pointwise(kernel);
  if (!pointwise || pointwise->casts) return 0;
  // Inputs are taken to be as wide as the result, which all stores are of: loads may be of an operation's constants.
  return kernel.stored_bytes / (pointwise->is_vectorized ? 2 : 1) * pointwise->operands;
}

}  // namespace ph
