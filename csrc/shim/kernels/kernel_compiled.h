// Kernels that PyTorch has NVRTC compile (its jiterator): element-wise operations and reductions. Their names carry no
// types; what their code object tells of parameters and stores does.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "shim/kernels/kernel_arguments.h"

namespace ph {

struct CompiledKernel {
  std::string_view name;
  std::span<const std::uint16_t> parameter_bytes;
  std::uint32_t stored_bytes;           // of all stores in its code
  std::uint32_t narrowest_store_bytes;  // 0: it has none
};

// What is read of a launch's arguments; nothing for a kernel that is not of this kind.
ArgumentPlan plan_compiled(const CompiledKernel& kernel);

// What a thread of an element-wise one loads and stores, whether or not its operation loops; 0 for all others, and where
// its operands have types of their own, which are arguments.
std::uint32_t pointwise_thread_bytes(const CompiledKernel& kernel) noexcept;

}  // namespace ph
