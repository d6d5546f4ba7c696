#include "shim/calls/stream_calls.h"

#include <algorithm>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/launch/work.h"
#include "shim/profiling/activities.h"
#include "shim/values/assertions.h"
#include "shim/waiting/host_waits.h"

namespace ph::calls {

namespace {

constexpr int kGreatestPriority = -5;

constexpr unsigned kNonBlocking = 1;   // cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING
constexpr unsigned kExternal = 1;      // cudaEventRecordExternal, CU_EVENT_RECORD_EXTERNAL; likewise of a wait
constexpr unsigned kBlockingSync = 1;  // cudaEventBlockingSync, CU_EVENT_BLOCKING_SYNC, and so on
constexpr unsigned kDisableTiming = 2;
constexpr unsigned kInterprocess = 4;

// A stream that gets work, or a question about its work. Invalid: `status` says why.
StreamRef find(void* handle, CaptureError (*check)(StreamRef), Status& status) noexcept {
  StreamRef stream = resolve_stream(handle);
  status = stream.valid ? status_of(check(stream)) : Status::InvalidHandle;
  return stream;
}

// Events of the program that a graph's launches record and wait for, as they are then. Only in a capture.
Status record_in_graph(StreamRef stream, void* event) noexcept {
  const bool is_captured =
      capture_work(stream, NodeKind::EventRecord, [event](StreamRef launched) { ph::record_event(event, launched); });
  return is_captured ? Status::Success : status_of(CaptureError::IllegalState);
}

Status wait_in_graph(StreamRef stream, void* event) noexcept {
  const CaptureError error = check_external_wait(stream, resolve_event(event));
  if (error != CaptureError::None) return status_of(error);
  capture_work(stream, NodeKind::EventWait,
               [event](StreamRef launched) { stream_wait_event(launched, resolve_event(event)); });
  return Status::Success;
}

// What a stream is; `out` is where the caller wants the answer.
template <class Out, class Read>
Status describe(void* handle, Out* out, Read read) noexcept {
  const StreamRef stream = resolve_stream(handle);
  if (!stream.valid) return Status::InvalidHandle;
  if (out == nullptr) return Status::InvalidValue;
  *out = read(stream);
  return Status::Success;
}

// An event whose work the host waits for or asks about.
Status check_question(const EventRef& event) noexcept {
  return event.valid ? status_of(check_event_wait(event)) : Status::InvalidHandle;
}

}  // namespace

Status create_stream(void** stream, unsigned flags, int priority) noexcept {
  if (stream == nullptr || (flags & ~kNonBlocking) != 0) return Status::InvalidValue;
  ensure_context(current_device());
  *stream =
      ph::create_stream(current_device(), (flags & kNonBlocking) != 0, std::clamp(priority, kGreatestPriority, 0));
  return *stream != nullptr ? Status::Success : Status::OutOfMemory;
}

Status destroy_stream(void* stream) noexcept {
  return ph::destroy_stream(stream) ? Status::Success : Status::InvalidHandle;
}

Status synchronize_stream(void* handle) noexcept {
  Status status;
  const StreamRef stream = find(handle, check_stream_wait, status);
  if (status != Status::Success) return status;
  const profiling::Waiting waiting(profiling::WaitType::Stream, stream);
  wait_stream(stream);
  return after_wait();
}

Status query_stream(void* handle) noexcept {
  Status status;
  const StreamRef stream = find(handle, check_stream_wait, status);
  if (status != Status::Success) return status;
  return ph::query_stream(stream) ? after_wait() : Status::NotReady;
}

Status wait_for_event(void* handle, void* event, unsigned flags) noexcept {
  Status status;
  const StreamRef stream = find(handle, check_work, status);
  if (status != Status::Success) return status;
  const EventRef reference = resolve_event(event);
  if (!reference.valid) return Status::InvalidHandle;
  if ((flags & ~kExternal) != 0) return Status::InvalidValue;
  if (flags == kExternal) return wait_in_graph(stream, event);
  const profiling::Waiting waiting(profiling::WaitType::StreamForEvent, stream, reference.instance);
  bool is_captured = false;
  status = status_of(capture_wait(stream, reference, is_captured));
  if (status == Status::Success && !is_captured) stream_wait_event(stream, reference);
  return status;
}

Status stream_priority(void* handle, int* priority) noexcept {
  return describe(handle, priority, [](const StreamRef& stream) { return stream.priority; });
}

Status stream_flags(void* handle, unsigned* flags) noexcept {
  return describe(handle, flags, [](const StreamRef& stream) { return stream.non_blocking ? kNonBlocking : 0; });
}

Status stream_id(void* handle, unsigned long long* id) noexcept {
  return describe(handle, id, [](const StreamRef& stream) {
    return static_cast<unsigned long long>(stream.device) << 32 | stream.id;
  });
}

Status stream_device(void* handle, int* device) noexcept {
  return describe(handle, device, [](const StreamRef& stream) { return static_cast<int>(stream.device); });
}

Status add_host_function(void* handle, std::function<void()> function) noexcept {
  Status status;
  const StreamRef stream = find(handle, check_work, status);
  if (status == Status::Success) launch_host_function(stream, std::move(function));
  return status;
}

Status create_event(void** event, unsigned flags) noexcept {
  if (event == nullptr || (flags & ~(kBlockingSync | kDisableTiming | kInterprocess)) != 0) return Status::InvalidValue;
  // Other processes' events have no time.
  if ((flags & (kInterprocess | kDisableTiming)) == kInterprocess) return Status::InvalidValue;
  ensure_context(current_device());
  *event = ph::create_event((flags & kDisableTiming) == 0);
  return *event != nullptr ? Status::Success : Status::OutOfMemory;
}

Status destroy_event(void* event) noexcept {
  return ph::destroy_event(event) ? Status::Success : Status::InvalidHandle;
}

// Records and elapsed times are of one device; waits and queries may be of any. Source: CUDA C++ Programming Guide,
// "Stream and Event Behavior" under "Multi-Device System".
Status record_event(void* event, void* handle, unsigned flags) noexcept {
  Status status;
  const StreamRef stream = find(handle, check_work, status);
  if (status != Status::Success) return status;
  const EventRef reference = resolve_event(event);
  if (!reference.valid || reference.device != stream.device) return Status::InvalidHandle;
  if ((flags & ~kExternal) != 0) return Status::InvalidValue;
  if (flags == kExternal) return record_in_graph(stream, event);
  if (!ph::record_event(event, stream)) return Status::InvalidHandle;
  if (profiling::gathers_any()) profiling::note_event(stream, resolve_event(event).instance);
  return Status::Success;
}

Status query_event(void* event) noexcept {
  const EventRef reference = resolve_event(event);
  if (const Status status = check_question(reference); status != Status::Success) return status;
  return ph::query_event(reference) ? after_wait() : Status::NotReady;
}

Status synchronize_event(void* event) noexcept {
  const EventRef reference = resolve_event(event);
  const Status status = check_question(reference);
  if (status != Status::Success) return status;
  const profiling::Waiting waiting(profiling::WaitType::Event, reference.stream, reference.instance);
  wait_event(reference);
  return after_wait();
}

Status synchronize_device() noexcept {
  const auto device = static_cast<std::uint16_t>(current_device());
  const profiling::Waiting waiting(profiling::WaitType::Context, {.device = device});
  wait_device(device);
  return after_wait();
}

Status after_wait() noexcept { return assertion_failed() ? Status::Assert : Status::Success; }

Status elapsed_time(float* milliseconds, void* start, void* end) noexcept {
  if (milliseconds == nullptr) return Status::InvalidValue;
  const EventRef first = resolve_event(start);
  const EventRef second = resolve_event(end);
  if (!first.valid || !second.valid || !first.timing || !second.timing || first.instance == 0 || second.instance == 0) {
    return Status::InvalidHandle;
  }
  if (first.device != second.device) return Status::InvalidHandle;
  if (first.captured || second.captured) return status_of(CaptureError::CapturedEvent);
  Record question{};
  question.id = static_cast<std::uint32_t>(WaitKind::Elapsed);
  question.arg[ElapsedWaitArg::First] = first.instance;
  question.arg[ElapsedWaitArg::Second] = second.instance;
  std::uint64_t elapsed = 0;
  if (wait(question, &elapsed) == ReplyStatus::NotReady) return Status::NotReady;
  *milliseconds = static_cast<float>(static_cast<double>(static_cast<Nanoseconds>(elapsed)) / 1e6);
  return Status::Success;
}

}  // namespace ph::calls
