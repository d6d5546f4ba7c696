// Streams and events.
#include "shim/cudart/cudart.h"

#include <algorithm>

#include "shim/core/copies.h"
#include "shim/core/rank.h"
#include "shim/core/work.h"

using namespace ph;
using namespace ph::cudart;

namespace {

// Priorities outside the device's range are clamped, as the runtime does.
constexpr int kGreatestPriority = -5;

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) noexcept {
  if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return returned(cudaErrorInvalidValue);
  }
  ensure_context(current_device());
  *stream = static_cast<cudaStream_t>(create_stream(current_device(), (flags & cudaStreamNonBlocking) != 0,
                                                    std::clamp(priority, kGreatestPriority, 0)));
  return *stream != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

cudaError_t record(cudaEvent_t event, cudaStream_t handle) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  return record_event(event, stream) ? cudaSuccess : returned(cudaErrorInvalidResourceHandle);
}

// Events of the program that a graph's launches record and wait for, as they are then. Only in a capture.
cudaError_t record_in_graph(StreamRef stream, cudaEvent_t event) noexcept {
  if (!resolve_event(event).valid) return returned(cudaErrorInvalidResourceHandle);
  const bool is_captured =
      capture_work(stream, NodeKind::EventRecord, [event](StreamRef launched) { record_event(event, launched); });
  return is_captured ? cudaSuccess : returned(cudaErrorInvalidValue);
}

cudaError_t wait_in_graph(StreamRef stream, cudaEvent_t event) noexcept {
  const bool is_captured = capture_work(
      stream, NodeKind::EventWait, [event](StreamRef launched) { stream_wait_event(launched, resolve_event(event)); });
  return is_captured ? cudaSuccess : returned(cudaErrorInvalidValue);
}

}  // namespace

extern "C" {

PH_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) noexcept {
  PH_CALL(cudaStreamCreate, HostCost::Setup);
  return create(stream, cudaStreamDefault, 0);
}

PH_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) noexcept {
  PH_CALL(cudaStreamCreateWithFlags, HostCost::Setup);
  return create(stream, flags, 0);
}

PH_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) noexcept {
  PH_CALL(cudaStreamCreateWithPriority, HostCost::Setup);
  return create(stream, flags, priority);
}

PH_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) noexcept {
  PH_CALL(cudaStreamDestroy, HostCost::Setup);
  return destroy_stream(stream) ? cudaSuccess : returned(cudaErrorInvalidResourceHandle);
}

PH_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t handle) noexcept {
  PH_CALL(cudaStreamSynchronize, HostCost::Sync);
  PH_FIND_STREAM(stream, handle);
  PH_CHECK_CAPTURE(check_stream_wait(stream));
  wait_stream(stream);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaStreamQuery(cudaStream_t handle) noexcept {
  PH_CALL(cudaStreamQuery, HostCost::None);
  PH_FIND_STREAM(stream, handle);
  PH_CHECK_CAPTURE(check_stream_wait(stream));
  return query_stream(stream) ? cudaSuccess : cudaErrorNotReady;
}

PH_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) noexcept {
  PH_CALL(cudaStreamWaitEvent, HostCost::None);
  PH_RESOLVE_STREAM(stream, handle);
  const EventRef reference = resolve_event(event);
  if (!reference.valid) return returned(cudaErrorInvalidResourceHandle);
  if (flags == cudaEventWaitExternal) return wait_in_graph(stream, event);
  bool is_captured = false;
  PH_CHECK_CAPTURE(capture_wait(stream, reference, is_captured));
  if (is_captured) return cudaSuccess;
  stream_wait_event(stream, reference);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) noexcept {
  PH_CALL(cudaStreamGetPriority);
  PH_FIND_STREAM(stream, handle);
  if (priority == nullptr) return returned(cudaErrorInvalidValue);
  *priority = stream.priority;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) noexcept {
  PH_CALL(cudaStreamGetFlags);
  PH_FIND_STREAM(stream, handle);
  if (flags == nullptr) return returned(cudaErrorInvalidValue);
  *flags = stream.non_blocking ? cudaStreamNonBlocking : cudaStreamDefault;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) noexcept {
  PH_CALL(cudaStreamGetId);
  PH_FIND_STREAM(stream, handle);
  if (id == nullptr) return returned(cudaErrorInvalidValue);
  *id = static_cast<unsigned long long>(stream.device) << 32 | stream.id;  // as cuStreamGetId
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) noexcept {
  PH_CALL(cudaStreamGetDevice);
  PH_FIND_STREAM(stream, handle);
  if (device == nullptr) return returned(cudaErrorInvalidValue);
  *device = stream.device;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                            unsigned flags) noexcept {
  PH_CALL(cudaStreamAddCallback, HostCost::Launch);
  if (callback == nullptr || flags != 0) return returned(cudaErrorInvalidValue);
  PH_RESOLVE_STREAM(stream, handle);
  launch_host_function(stream, [callback, handle, data] { callback(handle, cudaSuccess, data); });
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) noexcept {
  PH_CALL(cudaEventCreateWithFlags, HostCost::None);
  constexpr unsigned kFlags = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (event == nullptr || (flags & ~kFlags) != 0) return returned(cudaErrorInvalidValue);
  if ((flags & (cudaEventInterprocess | cudaEventDisableTiming)) == cudaEventInterprocess) {
    return returned(cudaErrorInvalidValue);  // other processes' events have no time
  }
  ensure_context(current_device());
  *event = static_cast<cudaEvent_t>(create_event((flags & cudaEventDisableTiming) == 0));
  return *event != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

PH_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) noexcept {
  PH_CALL(cudaEventCreate, HostCost::None);
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

PH_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) noexcept {
  PH_CALL(cudaEventDestroy, HostCost::None);
  return destroy_event(event) ? cudaSuccess : returned(cudaErrorInvalidResourceHandle);
}

PH_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) noexcept {
  PH_CALL(cudaEventRecord, HostCost::Event);
  return record(event, stream);
}

PH_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) noexcept {
  PH_CALL(cudaEventRecordWithFlags, HostCost::Event);
  if (flags != cudaEventRecordExternal) return record(event, handle);
  PH_RESOLVE_STREAM(stream, handle);
  return record_in_graph(stream, event);
}

PH_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) noexcept {
  PH_CALL(cudaEventQuery, HostCost::None);
  const EventRef reference = resolve_event(event);
  if (!reference.valid) return returned(cudaErrorInvalidResourceHandle);
  PH_CHECK_CAPTURE(check_event_wait(reference));
  return query_event(reference) ? cudaSuccess : cudaErrorNotReady;
}

PH_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) noexcept {
  PH_CALL(cudaEventSynchronize, HostCost::Sync);
  const EventRef reference = resolve_event(event);
  if (!reference.valid) return returned(cudaErrorInvalidResourceHandle);
  PH_CHECK_CAPTURE(check_event_wait(reference));
  wait_event(reference);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) noexcept {
  PH_CALL(cudaEventElapsedTime, HostCost::Sync);
  if (milliseconds == nullptr) return returned(cudaErrorInvalidValue);
  const EventRef first = resolve_event(start);
  const EventRef second = resolve_event(end);
  if (!first.valid || !second.valid || !first.timing || !second.timing || first.instance == 0 || second.instance == 0) {
    return returned(cudaErrorInvalidResourceHandle);
  }
  PH_CHECK_CAPTURE(first.captured || second.captured ? CaptureError::CapturedEvent : CaptureError::None);
  Record question{};
  question.id = static_cast<std::uint32_t>(WaitKind::Elapsed);
  question.arg[0] = first.instance;
  question.arg[1] = second.instance;
  std::uint64_t elapsed_ns = 0;
  if (wait(question, &elapsed_ns) == ReplyStatus::NotReady) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(elapsed_ns)) / 1e6);
  return cudaSuccess;
}

}  // extern "C"
