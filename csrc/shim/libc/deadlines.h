// Waits of the program that have a time-out, in virtual time. See virtual_clock.cc for the rules.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

#include <pthread.h>

#include "protocol/nanoseconds.h"
#include "shim/core/own_code.h"
#include "shim/libc/alarms.h"

namespace ph {

class TimedWait {
 public:
  // RealTime: libc's function can only end by itself. Turn: likewise, and it is no wait of the program.
  enum class Until { Alarm, RealTime, Turn };
  enum class Ended { Returned, RanOut, TooEarly };

  // `timeout_ns`: negative for none.
  explicit TimedWait(Nanoseconds timeout_ns) noexcept;
  // `deadline`: the program took it from a virtual clock.
  TimedWait(clockid_t clock, const timespec* deadline, Until until) noexcept;
  TimedWait(clockid_t clock, const timespec* deadline, pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept;

  // What libc is to be given instead, in real time.
  Nanoseconds real_timeout_ns() const noexcept;
  const timespec* real_deadline() noexcept;

  // What the end of libc's wait with this error (0: none) means; `TooEarly`: the program is to wait on. When the wait
  // has run out, the thread's clock has reached the deadline.
  Ended judge(int error) noexcept;

 private:
  void begin(Nanoseconds left_ns, Until until, pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept;
  void begin_until(Until until, pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept;
  bool stands_still() const noexcept;

  OwnCode own_;
  clockid_t clock_ = CLOCK_MONOTONIC;
  const timespec* given_ = nullptr;
  timespec real_{};
  bool limited_ = false;
  bool notifies_ = false;
  bool is_frameworks_ = false;   // of a thread of the framework's own, until a deadline
  Nanoseconds left_ns_ = 0;
  Nanoseconds host_ns_ = 0;      // when it began
  Nanoseconds real_start_ns_ = 0;
  Nanoseconds deadline_ns_ = 0;  // as host clock
  Nanoseconds lead_ns_ = 0;      // of the program's readings over the host clock
  std::optional<Alarm> alarm_;
};

}  // namespace ph
