// Futex waits that bypass libc's locks: std::future, std::counting_semaphore and Rust's parking call `syscall` with an
// absolute deadline, which they took from a virtual clock. Everything else passes through.
#include <cerrno>
#include <cstdarg>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/libc/deadlines.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace {

bool has_absolute_deadline(long operation) noexcept {
  // FUTEX_WAIT takes a relative time-out; FUTEX_WAIT_BITSET an absolute one (futex(2)).
  return (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

}  // namespace

extern "C" PH_EXPORT long syscall(long number, ...) noexcept {
  static constinit ph::Next<long(long, long, long, long, long, long, long)> next{"syscall"};
  // No system call has more than six arguments, each of one register.
  long argument[6];
  va_list list;
  va_start(list, number);
  for (long& value : argument) value = va_arg(list, long);
  va_end(list);

  if (number == SYS_clock_gettime) {
    return clock_gettime(static_cast<clockid_t>(argument[0]), reinterpret_cast<timespec*>(argument[1]));
  }
  if (number != SYS_futex || !has_absolute_deadline(argument[1])) {
    return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
  }
  const clockid_t clock = (argument[1] & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  ph::TimedWait until(clock, reinterpret_cast<const timespec*>(argument[3]), ph::TimedWait::Until::Alarm);
  for (;;) {
    const long result = next(number, argument[0], argument[1], argument[2],
                             reinterpret_cast<long>(until.real_deadline()), argument[4], argument[5]);
    switch (until.judge(result == -1 ? errno : 0)) {
      case ph::TimedWait::Ended::Returned: return result;
      case ph::TimedWait::Ended::RanOut: errno = ETIMEDOUT; return -1;
      case ph::TimedWait::Ended::TooEarly: break;
    }
  }
}
