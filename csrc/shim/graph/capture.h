// Stream capture: work on a captured stream is not issued but becomes a part of a graph (graph/graph.h).
//
// The state machine is CUDA's: which streams are in a capture, how they fork and join through events, what ends it.
// Source: CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture", and the runtime API's stream management.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "shim/channel/hooks.h"
#include "shim/core/device.h"
#include "shim/graph/graph.h"

namespace ph {

// The values are those of cudaStreamCaptureMode, cudaStreamCaptureStatus and of cudaError_t, which CUresult shares.
enum class CaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };
enum class CaptureStatus : int { None = 0, Active = 1, Invalidated = 2 };
enum class CaptureError : int {
  None = 0,
  InvalidValue = 1,
  IllegalState = 401,
  Unsupported = 900,
  Invalidated = 901,
  Merge = 902,
  Unmatched = 903,
  Unjoined = 904,
  Isolation = 905,
  Implicit = 906,
  CapturedEvent = 907,
  WrongThread = 908,
};

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::None;
  std::uint64_t id = 0;
  void* graph = nullptr;
  const GraphNodes* dependencies = nullptr;  // of the stream's next node; good until something is captured
};

PH_EXPORT CaptureError begin_capture(StreamRef stream, CaptureMode mode) noexcept;
// `graph`: a handle; null where the capture was not a valid one. A stream that has joined the capture does not end it,
// the wrong thread does.
PH_EXPORT CaptureError end_capture(StreamRef stream, void** graph) noexcept;
PH_EXPORT CaptureInfo capture_info(StreamRef stream) noexcept;
// Of the calling thread; returns the one before.
PH_EXPORT CaptureMode exchange_capture_mode(CaptureMode mode) noexcept;

// What a call has to ask first. An error invalidates the captures that it concerns.
PH_EXPORT CaptureError check_work(StreamRef stream) noexcept;  // work for a stream
PH_EXPORT CaptureError check_stream_wait(StreamRef stream) noexcept;  // the host waits for a stream or asks about it
PH_EXPORT CaptureError check_event_wait(const EventRef& event) noexcept;  // or for an event
// A launch waits for an event of the program, which must not come from a capture.
PH_EXPORT CaptureError check_external_wait(StreamRef stream, const EventRef& event) noexcept;
PH_EXPORT CaptureError check_unsafe_call() noexcept;  // a call that may wait for what is being captured

// An event's record in a captured stream.
struct CapturedEvent {
  std::uint64_t capture;
  std::uint32_t mark;
  std::vector<std::uint32_t> seen;  // how far each branch is, seen from here
  GraphNodes nodes;  // that come right before
};
// Null: the stream is not captured.
PH_EXPORT std::shared_ptr<const CapturedEvent> capture_mark(StreamRef stream) noexcept;
// `concerned`: the wait is part of a capture, or wrong; otherwise it is an ordinary one.
PH_EXPORT CaptureError capture_wait(StreamRef stream, const EventRef& event, bool& concerned) noexcept;

namespace detail {
PH_EXPORT extern std::atomic<int> open_captures;
PH_EXPORT bool add_effect(StreamRef stream, NodeKind kind, std::function<void(StreamRef)> effect) noexcept;
}  // namespace detail

inline bool any_capture() noexcept { return detail::open_captures.load(std::memory_order_relaxed) != 0; }

// True: work that is issued by a function went to a capture. `kind`: of the node that it makes. See also
// capture_record (channel/hooks.h).
inline bool capture_work(StreamRef stream, NodeKind kind, std::function<void(StreamRef)> effect) noexcept {
  return any_capture() && detail::add_effect(stream, kind, std::move(effect));
}

// What a launch does beside the GPU's work, where this thread captures. False: it does not.
PH_EXPORT bool capture_beside(std::function<void()> effect) noexcept;

// Whether a record of the API call under way went to a capture, so that its values come with the graph's launches.
PH_EXPORT bool call_is_captured() noexcept;
// Called at the beginning of every API call.
PH_EXPORT void begin_uncaptured_call() noexcept;
// What the captured call does to values.
PH_EXPORT void capture_values(std::function<void()> effect) noexcept;

}  // namespace ph
