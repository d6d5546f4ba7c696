// What a profiler is told of the rank: calls of the program, the work of its GPU, waits. In CUPTI's words, activities.
//
// They are gathered only while a profiler asks for their kind. When device work ran is the server's to say: its record
// carries a number (`activity`), by which the rank asks when it collects. docs/decisions/profilers.md
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "protocol/records.h"
#include "shim/core/api.h"
#include "shim/core/device.h"

namespace ph::profiling {

enum class Kind : std::uint32_t {
  Runtime = 1u << 0,  // calls of the runtime API, or launches by a library
  Driver = 1u << 1,   // calls of the driver API
  Kernel = 1u << 2,
  Communication = 1u << 3,  // kernels of NCCL
  Copy = 1u << 4,
  Fill = 1u << 5,
  Wait = 1u << 6,         // a host or a stream waits
  EventRecord = 1u << 7,  // an event is recorded
  External = 1u << 8,     // a number of the profiler's for the call with this correlation
};

// The values are those of CUpti_ActivitySynchronizationType.
enum class WaitType : std::uint32_t { Event = 1, StreamForEvent = 2, Stream = 3, Context = 4 };

struct Activity {
  Kind kind{};
  std::uint16_t device = 0;
  std::uint8_t flags = 0;  // of a copy's record
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;  // of the call in which it was issued
  std::uint32_t detail = 0;       // Kernel: signature; Copy: CopyKind; Wait: WaitType; External: kind
  std::uint64_t amount = 0;       // Copy, Fill: bytes; Wait, EventRecord: event instance; External: the number
  std::uint64_t thread = 0;       // of a call: pthread_self()
  const char* call = nullptr;     // of a call: its name
  Nanoseconds start_ns = 0;       // in virtual time, as the program's clocks tell it
  Nanoseconds end_ns = 0;
  std::string name{};  // of Communication: its kernel
};

namespace detail {
PH_EXPORT extern std::atomic<std::uint32_t> gathered;  // kinds
}

inline bool gathers_any() noexcept { return detail::gathered.load(std::memory_order_relaxed) != 0; }
inline bool gathers(Kind kind) noexcept {
  return (detail::gathered.load(std::memory_order_relaxed) & static_cast<std::uint32_t>(kind)) != 0;
}

// What the profiler asks for from now on.
PH_EXPORT void gather(Kind kind, bool on) noexcept;
// Hands over what has ended, call by call; what has not yet stays for the next time.
PH_EXPORT void collect(const std::function<void(const Activity&)>& take);
// Of the calling thread: calls from now on belong to this number, until it is taken back. False: none is there.
PH_EXPORT void push_external(std::uint32_t kind, std::uint64_t number) noexcept;
PH_EXPORT bool pop_external(std::uint32_t kind, std::uint64_t& number) noexcept;

// The time of an activity on the calling thread. It takes no virtual time.
PH_EXPORT Nanoseconds now_ns() noexcept;

// A call of the program that this thread is in, from begin() to its end. Inert unless begun.
class PH_EXPORT HostCall {
 public:
  HostCall() noexcept = default;
  ~HostCall() noexcept {
    if (name_ != nullptr) end();
  }
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  // `library`: as its table has it.
  void begin(std::string_view library, const char* name) noexcept;

  // Of work that the call issues.
  std::uint32_t correlation() const noexcept { return correlation_; }
  // A library issues its work by calls of its own. The time since the last one belongs to it.
  std::uint32_t add_launch() noexcept;
  bool is_of_library() const noexcept { return kind_ == Kind{}; }

 private:
  void end() noexcept;

  Kind kind_{};
  const char* name_ = nullptr;
  std::uint32_t correlation_ = 0;
  Nanoseconds start_ns_ = 0;
};

// While it lives the host waits, or a stream is told to.
class PH_EXPORT Waiting {
 public:
  Waiting(WaitType type, StreamRef stream, std::uint64_t event = 0) noexcept
      : gathers_(gathers(Kind::Wait)), type_(type), stream_(stream), event_(event) {
    if (gathers_) start_ns_ = now_ns();
  }
  ~Waiting() noexcept {
    if (gathers_) end();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void end() noexcept;

  const bool gathers_;
  const WaitType type_;
  const StreamRef stream_;
  const std::uint64_t event_;
  Nanoseconds start_ns_ = 0;
};

// An event has been recorded in the call of this thread.
PH_EXPORT void note_event(StreamRef stream, std::uint64_t instance) noexcept;

}  // namespace ph::profiling
