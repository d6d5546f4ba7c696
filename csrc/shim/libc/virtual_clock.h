// The virtual clocks of a rank as its program sees them. See virtual_clock.cc for the rules.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

#include "shim/core/own_code.h"

namespace ph {

// A driver's waits and clock reads move the rank's host clock; other threads, and processes forked from the
// rank, only look at it.
bool drives_clock() noexcept;

// Reading of libc's `clock` at virtual time 0; nothing for clocks that stay real (CPU time, dynamic clocks).
std::optional<std::int64_t> clock_epoch_ns(clockid_t clock) noexcept;

// Virtual time for the calling thread. `read` is what a program's clock read does: it costs a driver a little.
// `latest` is no earlier than what a read of a driver has told.
std::uint64_t read_virtual_ns() noexcept;
std::uint64_t peek_virtual_ns() noexcept;
std::uint64_t latest_virtual_ns() noexcept;
// This thread's last read was not the program's.
void forget_read() noexcept;

// Before a driver's clock read: a rank that was set aside has stood still, so it comes back first. A loop of the
// framework's own that looks outside does not: how often it looks at a clock is a matter of luck.
void catch_up(const void* caller) noexcept;

// The calling thread's wait for `deadline_ns` (virtual) ran out: for it, that time has come.
void pass_deadline(std::uint64_t deadline_ns) noexcept;

// A wait whose time-out is relative, in real time: notes the virtual deadline before it, passes it if it ran out.
class RelativeWait {
 public:
  explicit RelativeWait(std::int64_t timeout_ns) noexcept;  // negative: no time-out
  void ran_out() const noexcept;

 private:
  OwnCode own_;
  std::uint64_t deadline_ns_ = 0;
  bool limited_ = false;
};

// A deadline that the program took from a virtual clock, for a libc wait on the real one.
class AbsoluteWait {
 public:
  AbsoluteWait(clockid_t clock, const timespec* deadline) noexcept;
  const timespec* real_deadline() const noexcept { return translated_ ? &real_ : given_; }
  void ran_out() const noexcept;

 private:
  OwnCode own_;
  const timespec* given_;
  timespec real_{};
  std::uint64_t deadline_ns_ = 0;
  bool translated_ = false;
};

// Sleeps for `duration_ns` of virtual time. Returns 0, or -1 with errno EINTR and the rest in `remaining`.
// `caller`: where the libc function will return to.
int sleep_virtual(std::int64_t duration_ns, timespec* remaining, const void* caller) noexcept;

}  // namespace ph
