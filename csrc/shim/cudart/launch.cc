// Launches, function attributes, occupancy.
#include "shim/cudart/cudart.h"

#include <algorithm>

#include "shim/core/config.h"
#include "shim/core/rank.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::cudart;

namespace {

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                   cudaStream_t handle) noexcept {
  KernelFunction* function = find_kernel(stub);
  if (function == nullptr) return returned(cudaErrorInvalidDeviceFunction);
  PH_RESOLVE_STREAM(stream, handle);
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return returned(cudaErrorInvalidConfiguration);
  }
  launch_kernel(*function, {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                           static_cast<std::uint32_t>(shared_bytes)}, arguments, stream);
  return cudaSuccess;
}

}  // namespace

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
                configuration->stream);
}

PH_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                                  std::size_t shared_bytes, cudaStream_t stream) noexcept {
  PH_CALL(cudaLaunchCooperativeKernel, HostCost::Launch);
  return launch(stub, grid, block, arguments, shared_bytes, stream);
}

PH_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) noexcept {
  PH_CALL(cudaLaunchHostFunc, HostCost::Launch);
  if (function == nullptr) return returned(cudaErrorInvalidValue);
  PH_RESOLVE_STREAM(stream, handle);
  become_driver();
  Record record{};
  record.kind = RecordKind::HostFunction;
  record.device = stream.device;
  record.stream = stream.id;
  emit(record);
  enqueue_value([function, data] { function(data); });
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) noexcept {
  PH_CALL(cudaFuncSetAttribute);
  if (find_kernel(stub) == nullptr) return returned(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
      value > config().number("gpu.sharedMemPerBlockOptin")) {
    return returned(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) noexcept {
  PH_CALL(cudaFuncGetAttributes);
  if (attributes == nullptr) return returned(cudaErrorInvalidValue);
  if (find_kernel(stub) == nullptr) return returned(cudaErrorInvalidDeviceFunction);
  const int capability = static_cast<int>(config().number("gpu.major") * 10 + config().number("gpu.minor"));
  *attributes = {};
  attributes->maxThreadsPerBlock = static_cast<int>(config().number("gpu.maxThreadsPerBlock"));
  attributes->numRegs = 32;  // assumed: the code objects are not opened
  attributes->ptxVersion = capability;
  attributes->binaryVersion = capability;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(config().number("gpu.sharedMemPerBlock"));
  attributes->preferredShmemCarveout = -1;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub,
                                                                             int block_threads,
                                                                             std::size_t shared_bytes,
                                                                             unsigned) noexcept {
  PH_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
  if (blocks == nullptr || block_threads <= 0) return returned(cudaErrorInvalidValue);
  if (find_kernel(stub) == nullptr) return returned(cudaErrorInvalidDeviceFunction);
  *blocks = max_active_blocks(block_threads, shared_bytes);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block_threads,
                                                                    std::size_t shared_bytes) noexcept {
  PH_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, block_threads, shared_bytes, 0);
}

}  // extern "C"
