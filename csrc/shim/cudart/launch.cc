// Launches, function attributes, occupancy.
#include "shim/cudart/cudart.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/cudart/compiled_for.h"
#include "shim/launch/work.h"

using namespace ph;
using namespace ph::cudart;

namespace {

// Limits of every GPU since compute capability 3.0. Source: CUDA C++ Programming Guide, "Technical Specifications".
constexpr unsigned kMaxBlockThreads = 1024, kMaxBlockDepth = 64, kMaxGridRows = 65535;

bool shape_fits(dim3 grid, dim3 block) noexcept {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return threads > 0 && threads <= kMaxBlockThreads && block.z <= kMaxBlockDepth && grid.x > 0 && grid.y > 0 &&
         grid.z > 0 && grid.x <= 0x7fffffffu && grid.y <= kMaxGridRows && grid.z <= kMaxGridRows;
}

int most_shared_bytes() noexcept {
  static const auto bytes = static_cast<int>(config().number("gpu.sharedMemPerBlockOptin"));
  return bytes;
}

// What cudaFuncSetAttribute set; functions that are not here have the device's defaults.
struct Settings {
  int dynamic_shared_bytes;
  int shared_carveout = -1;
};
std::mutex mutex;
auto& settings = *new std::unordered_map<const KernelFunction*, Settings>;

Settings& settings_of(const KernelFunction* function) {
  const auto default_bytes = static_cast<int>(config().number("gpu.sharedMemPerBlock"));
  return settings.try_emplace(function, Settings{default_bytes}).first->second;
}

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                   cudaStream_t handle, const LaunchForm& form = {}) noexcept {
  KernelFunction* function = find_kernel(stub);
  if (function == nullptr) return returned(kUnknownKernel);
  PH_RESOLVE_STREAM(stream, handle);
  // Source: CUDA C++ Programming Guide, "Stream and Event Behavior". Copies may name such a stream.
  if (stream.device != current_device()) return returned(cudaErrorInvalidResourceHandle);
  return launch_on(stream, *function, grid, block, arguments, shared_bytes, form);
}

LaunchForm form_of(const cudaLaunchConfig_t& configuration) noexcept {
  return ph::form_of(std::span<const cudaLaunchAttribute>(configuration.attrs, configuration.numAttrs),
                     cudaLaunchAttributeCooperative, cudaLaunchAttributeClusterDimension, &cudaLaunchAttribute::val);
}

cudaError_t set_attribute(const void* stub, cudaFuncAttribute attribute, int value) noexcept {
  const KernelFunction* function = find_kernel(stub);
  if (function == nullptr) return returned(kUnknownKernel);
  const std::lock_guard lock(mutex);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > most_shared_bytes()) return returned(cudaErrorInvalidValue);
    settings_of(function).dynamic_shared_bytes = value;
  } else if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
    if (value < -1 || value > 100) return returned(cudaErrorInvalidValue);
    settings_of(function).shared_carveout = value;
  }
  return cudaSuccess;
}

}  // namespace

namespace ph::cudart {

cudaError_t launch_on(StreamRef stream, KernelFunction& function, dim3 grid, dim3 block, void** arguments,
                      std::size_t shared_bytes, const LaunchForm& form) noexcept {
  if (!shape_fits(grid, block)) return returned(kWrongShape);
  if (shared_bytes > static_cast<std::size_t>(most_shared_bytes())) return returned(cudaErrorInvalidValue);
  launch_kernel(function,
                {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<std::uint32_t>(shared_bytes)},
                arguments, stream, form);
  return cudaSuccess;
}

}  // namespace ph::cudart

extern "C" {

PH_EXPORT cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                       std::size_t shared_bytes, cudaStream_t stream) noexcept {
  PH_CALL(cudaLaunchKernel, HostCost::Launch);
  return launch(stub, grid, block, arguments, shared_bytes, stream);
}

PH_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                         std::size_t shared_bytes, cudaStream_t stream) noexcept {
  PH_CALL(__cudaLaunchKernel, HostCost::Launch);
  return launch(kernel, grid, block, arguments, shared_bytes, stream);
}

PH_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* stub,
                                          void** arguments) noexcept {
  PH_CALL(cudaLaunchKernelExC, HostCost::Launch);
  if (configuration == nullptr) return returned(cudaErrorInvalidValue);
  return launch(stub, configuration->gridDim, configuration->blockDim, arguments, configuration->dynamicSmemBytes,
                configuration->stream, form_of(*configuration));
}

PH_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                                  std::size_t shared_bytes, cudaStream_t stream) noexcept {
  PH_CALL(cudaLaunchCooperativeKernel, HostCost::Launch);
  return launch(stub, grid, block, arguments, shared_bytes, stream, {.cooperative = true});
}

PH_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) noexcept {
  PH_CALL(cudaLaunchHostFunc, HostCost::Launch);
  if (function == nullptr) return returned(cudaErrorInvalidValue);
  return returned("cudaLaunchHostFunc", calls::add_host_function(handle, [function, data] { function(data); }));
}

PH_EXPORT cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) noexcept {
  PH_CALL(cudaFuncSetAttribute);
  return set_attribute(stub, attribute, value);
}

// Settings are kept per function: all GPUs of a node are the same.
PH_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                                      int device) noexcept {
  PH_CALL(cudaKernelSetAttributeForDevice);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  return set_attribute(kernel, attribute, value);
}

PH_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* stub) noexcept {
  PH_CALL(cudaFuncGetName);
  const KernelFunction* function = find_kernel(stub);
  if (name == nullptr) return returned(cudaErrorInvalidValue);
  if (function == nullptr) return returned(kUnknownKernel);
  *name = kernel_name(*function);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) noexcept {
  PH_CALL(cudaFuncGetAttributes);
  if (attributes == nullptr) return returned(cudaErrorInvalidValue);
  const KernelFunction* function = find_kernel(stub);
  if (function == nullptr) return returned(kUnknownKernel);
  const std::lock_guard lock(mutex);
  const Settings& set = settings_of(function);
  const int capability = static_cast<int>(config().number("gpu.major") * 10 + config().number("gpu.minor"));
  *attributes = {};
  attributes->maxThreadsPerBlock = static_cast<int>(config().number("gpu.maxThreadsPerBlock"));
  attributes->numRegs = 32;  // assumed: not read in code objects
  const CodeVersions versions = compiled_for(fat_binary_of(stub), capability);
  attributes->ptxVersion = versions.ptx;
  attributes->binaryVersion = versions.binary;
  attributes->maxDynamicSharedSizeBytes = set.dynamic_shared_bytes;
  attributes->preferredShmemCarveout = set.shared_carveout;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub,
                                                                             int block_threads,
                                                                             std::size_t shared_bytes,
                                                                             unsigned) noexcept {
  PH_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
  if (blocks == nullptr || block_threads <= 0) return returned(cudaErrorInvalidValue);
  if (find_kernel(stub) == nullptr) return returned(kUnknownKernel);
  *blocks = max_active_blocks(block_threads, shared_bytes);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block_threads,
                                                                    std::size_t shared_bytes) noexcept {
  PH_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, block_threads, shared_bytes, 0);
}

}  // extern "C"
