// Kernel launches, as runtime and driver API share them: from function, shape and arguments to a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shim/core/device.h"
#include "shim/kernels/kernel_arguments.h"
#include "shim/launch/launch_keeper.h"

namespace ph {

// One kernel function of the program. Lives as long as the process.
struct KernelFunction;

// `name`: mangled for compiled kernels, plain for Triton and NVRTC; copied.
PH_EXPORT KernelFunction* make_kernel_function(const char* name, KernelCode code);
PH_EXPORT const char* kernel_name(const KernelFunction& function) noexcept;

// `arguments` as in cudaLaunchKernel: a pointer to each parameter.
PH_EXPORT void launch_kernel(KernelFunction& function, const LaunchShape& shape, void** arguments, StreamRef stream,
                             const LaunchForm& form = {}) noexcept;

// What a launch's attributes say of its form. Runtime and driver API have the same ones under different names: `value` is
// what an attribute calls its union.
template <class Attribute, class Id, class Value>
LaunchForm form_of(std::span<const Attribute> attributes, Id cooperative, Id cluster,
                   Value Attribute::* value) noexcept {
  LaunchForm form;
  for (const Attribute& attribute : attributes) {
    if (attribute.id == cooperative) form.cooperative = (attribute.*value).cooperative != 0;
    if (attribute.id == cluster) {
      const auto& size = (attribute.*value).clusterDim;
      form = {form.cooperative, {size.x, size.y, size.z}};
    }
  }
  return form;
}

// The grouped products that this thread launches from now on have this signature, 0: nobody says. Their sizes are on the
// device; phantora_py/rank/grouped_products.py knows them.
PH_EXPORT void state_product(std::uint32_t signature) noexcept;

// Of the kernels that this thread loads from now on. phantora_py/rank/triton_code.py knows it.
PH_EXPORT void state_code(StatedCode code) noexcept;

// Limit of resident blocks per multiprocessor by threads, shared memory and the hardware's block limit.
// Registers are not known: 32 per thread are assumed.
PH_EXPORT int max_active_blocks(int block_threads, std::size_t dynamic_shared_bytes) noexcept;

}  // namespace ph
