// What the sources of our CUDA driver library share: devices, contexts, and the check of a stream argument.
//
// Streams, events and memory are the runtime's own objects (core/device.h): CUstream is cudaStream_t.
#pragma once

#include <cuda.h>

#include "shim/calls/graph_calls.h"
#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/core/visible_devices.h"
#include "shim/graph/capture.h"

namespace ph::driver {

inline bool is_device(CUdevice device) noexcept { return is_visible(device); }

inline void* to_pointer(CUdeviceptr address) noexcept { return reinterpret_cast<void*>(address); }
inline CUdeviceptr to_address(const void* pointer) noexcept { return reinterpret_cast<CUdeviceptr>(pointer); }

// The device's one primary context, the one that the runtime uses.
CUcontext primary_context(int device) noexcept;
// The calling thread's context, null before any call has made one current.
CUcontext current_context() noexcept;

// What a check of graph/capture.h found, as a call returns it.
inline CUresult result_of(CaptureError error) noexcept { return static_cast<CUresult>(error); }

// A form of a modelled call that is not modelled itself.
inline CUresult refused(const char* call, const char* form) noexcept {
  return static_cast<CUresult>(library::unsupported(call, form));
}

// What a call answers that both APIs have.
inline CUresult result_of(const char* call, calls::Status status) noexcept {
  const char* form = calls::form_of(status);
  return form ? refused(call, form) : static_cast<CUresult>(status);
}

#define PH_FIND_STREAM(name, handle)                         \
  const ::ph::StreamRef name = ::ph::resolve_stream(handle); \
  if (!name.valid) return CUDA_ERROR_INVALID_HANDLE
#define PH_CHECK_CAPTURE(check) \
  if (const auto forbidden = (check); forbidden != ::ph::CaptureError::None) return ::ph::driver::result_of(forbidden)
// A stream that gets work.
#define PH_RESOLVE_STREAM(name, handle) \
  PH_FIND_STREAM(name, handle);         \
  PH_CHECK_CAPTURE(::ph::check_work(name))

}  // namespace ph::driver
