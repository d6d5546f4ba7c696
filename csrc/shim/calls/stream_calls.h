// The calls about streams and events that the runtime API and the driver API both have, each written once.
//
// A stream's handle is cudaStream_t and CUstream, an event's cudaEvent_t and CUevent. Flags have the same values in
// both APIs. Source: CUDA runtime API and CUDA driver API, "Stream Management" and "Event Management".
#pragma once

#include <cstdint>

#include "shim/graph/capture.h"

namespace ph::calls {

// The values are those of cudaError_t, which CUresult shares.
enum class Status : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  InvalidDevice = 101,
  OperatingSystem = 304,
  InvalidHandle = 400,
  NotReady = 600,
  Assert = 710,
  ExecUpdateFailure = 910,
  // Forms of modelled calls that are not modelled themselves: see form_of.
  OnCaptured = -1,
  IntoCapture = -2,
  WithPorts = -3,
};

// What is not modelled, as a message says it after the name of the call; null: none of these.
constexpr const char* form_of(Status status) noexcept {
  switch (status) {
    case Status::OnCaptured: return "on a graph that was captured";
    case Status::IntoCapture: return "into a stream that is being captured";
    case Status::WithPorts: return "with programmatic launches";
    default: return nullptr;
  }
}
constexpr Status status_of(CaptureError error) noexcept { return static_cast<Status>(error); }

// Priorities outside the device's range are clamped.
PH_EXPORT Status create_stream(void** stream, unsigned flags, int priority) noexcept;
PH_EXPORT Status destroy_stream(void* stream) noexcept;
PH_EXPORT Status synchronize_stream(void* stream) noexcept;
PH_EXPORT Status query_stream(void* stream) noexcept;
PH_EXPORT Status wait_for_event(void* stream, void* event, unsigned flags) noexcept;
PH_EXPORT Status stream_priority(void* stream, int* priority) noexcept;
PH_EXPORT Status stream_flags(void* stream, unsigned* flags) noexcept;
PH_EXPORT Status stream_id(void* stream, unsigned long long* id) noexcept;
PH_EXPORT Status stream_device(void* stream, int* device) noexcept;
// `function` runs on the host when the stream's work before it is done.
PH_EXPORT Status add_host_function(void* stream, std::function<void()> function) noexcept;

PH_EXPORT Status create_event(void** event, unsigned flags) noexcept;
PH_EXPORT Status destroy_event(void* event) noexcept;
PH_EXPORT Status record_event(void* event, void* stream, unsigned flags) noexcept;
PH_EXPORT Status query_event(void* event) noexcept;
PH_EXPORT Status synchronize_event(void* event) noexcept;
PH_EXPORT Status synchronize_device() noexcept;  // the current one
// Of a call that has waited for work of a GPU.
PH_EXPORT Status after_wait() noexcept;
PH_EXPORT Status elapsed_time(float* milliseconds, void* start, void* end) noexcept;

}  // namespace ph::calls
