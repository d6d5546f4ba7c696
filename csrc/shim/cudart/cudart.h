// What the sources of our CUDA runtime share: the error state of a thread and the registry of kernels.
#pragma once

#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000
// What CUDA 13 calls so has this name in CUDA 12, where the plain one is an older call (cuda12.cc).
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#undef cudaGraphNodeGetDependencies
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#undef cudaGraphNodeGetDependentNodes
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#undef cudaGraphAddDependencies
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#undef cudaGraphRemoveDependencies
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#undef cudaGraphGetEdges
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#undef cudaMemAdvise
#define cudaMemAdvise cudaMemAdvise_v2
#undef cudaMemPrefetchAsync
#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#endif

#include "shim/calls/graph_calls.h"
#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/core/visible_devices.h"
#include "shim/graph/capture.h"
#include "shim/launch/launch.h"

namespace ph::cudart {

// Launches of an unregistered kernel, and with blocks or a grid that cannot be: from CUDA 13 on the driver's own codes,
// as measured on an H200 (CUDA 13.0); CUDA 12 documents codes of the runtime.
#if CUDART_VERSION < 13000
constexpr cudaError_t kUnknownKernel = cudaErrorInvalidDeviceFunction;
constexpr cudaError_t kWrongShape = cudaErrorInvalidConfiguration;
#else
constexpr cudaError_t kUnknownKernel = cudaErrorInvalidResourceHandle;
constexpr cudaError_t kWrongShape = cudaErrorInvalidValue;
#endif

// Remembers `error` for cudaGetLastError, as the runtime does for every call that fails, and returns it.
cudaError_t returned(cudaError_t error) noexcept;

// A form of a modelled call that is not modelled itself.
inline cudaError_t refused(const char* call, const char* form) noexcept {
  return static_cast<cudaError_t>(library::unsupported(call, form));
}

inline bool is_device(int device) noexcept { return is_visible(device); }

// The kernel behind a host stub, or null.
KernelFunction* find_kernel(const void* host_stub) noexcept;
// What __cudaRegisterFatBinary got of the library that a kernel is in.
const void* fat_binary_of(const void* host_stub) noexcept;
// The size of a registered variable, by its host symbol; 0: not registered.
std::size_t variable_bytes(const void* symbol) noexcept;
bool is_constant_variable(const void* symbol) noexcept;

// cudaMemcpy and cudaMemcpyAsync: checks, record, values.
cudaError_t copy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                 bool synchronous) noexcept;
// What these calls do once they have their stream.
cudaError_t launch_on(StreamRef stream, KernelFunction& function, dim3 grid, dim3 block, void** arguments,
                      std::size_t shared_bytes, const LaunchForm& form = {}) noexcept;
cudaError_t copy_on(StreamRef stream, void* destination, std::size_t destination_pitch, const void* source,
                    std::size_t source_pitch, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                    bool synchronous) noexcept;
cudaError_t fill_on(StreamRef stream, void* pointer, unsigned value, std::size_t element_bytes,
                    std::size_t count) noexcept;
// Memory is given back: it leaves the pool if it came from one, which then reserves it no more. Of what cudaFree gives
// back (not `is_counted`) it goes on counting that it is in use, as measured on an H100 and an H200 (CUDA 13.0).
void leave_pool(const void* pointer, bool is_counted) noexcept;

// What a check of graph/capture.h found, as a call returns it.
inline cudaError_t returned(CaptureError error) noexcept {
  return error == CaptureError::None ? cudaSuccess : returned(static_cast<cudaError_t>(error));
}

// What a call answers that both APIs have. "Not ready" is an answer; cudaGetLastError does not tell of it (assumed).
inline cudaError_t returned(const char* call, calls::Status status) noexcept {
  if (const char* form = calls::form_of(status)) return refused(call, form);
  const auto error = static_cast<cudaError_t>(status);
  return error == cudaSuccess || error == cudaErrorNotReady ? error : returned(error);
}

// A stream argument that is not valid makes the call return cudaErrorInvalidResourceHandle.
#define PH_FIND_STREAM(name, handle)                         \
  const ::ph::StreamRef name = ::ph::resolve_stream(handle); \
  if (!name.valid) return ::ph::cudart::returned(cudaErrorInvalidResourceHandle)
// So does a check of graph/capture.h.
#define PH_CHECK_CAPTURE(check) \
  if (const auto forbidden = (check); forbidden != ::ph::CaptureError::None) return ::ph::cudart::returned(forbidden)
// A stream that gets work.
#define PH_RESOLVE_STREAM(name, handle) \
  PH_FIND_STREAM(name, handle);         \
  PH_CHECK_CAPTURE(::ph::check_work(name))

}  // namespace ph::cudart
