// libc's clocks answer in virtual time inside a rank. CPU-time clocks and those of file descriptors stay real, and
// so do the kernel's own stamps (file times) and timers (timerfd, setitimer).
#include <algorithm>
#include <cerrno>
#include <ctime>

#include <sys/time.h>

#include "shim/channel/rank.h"
#include "shim/host_time/clock_marks.h"
#include "shim/libc/interpreter.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/repeated_waits.h"
#include "shim/libc/time_stamp_counter.h"
#include "shim/libc/virtual_clock.h"

namespace {

ph::Nanoseconds now_ns(clockid_t clock, const void* caller) noexcept {
  if (ph::clock_virtual()) {
    if (const auto epoch_ns = ph::clock_epoch_ns(clock)) {
      ph::catch_up(caller);
      return *epoch_ns + ph::read_virtual_ns();
    }
  }
  return ph::real_clock_ns(clock);
}

}  // namespace

extern "C" {

PH_EXPORT int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto epoch_ns = ph::clock_virtual() ? ph::clock_epoch_ns(clock) : std::nullopt;
  if (!epoch_ns) return ph::real_clock_gettime(clock, time);
  if (const auto compared_ns = ph::compared_ns()) {
    *time = ph::to_timespec(*epoch_ns + *compared_ns);
    return 0;
  }
  const bool costs = ph::drives_clock() && !ph::is_interpreters_own_read(__builtin_return_address(0));
  if (costs && ph::is_of_python(__builtin_return_address(0))) ph::note_clock_read(ph::polls_clock());
  costs ? ph::catch_up(__builtin_return_address(0)) : ph::tell_no_lead();
  const ph::Nanoseconds now_ns = costs ? ph::read_virtual_ns() : ph::peek_virtual_ns();
  *time = ph::to_timespec(*epoch_ns + std::max(now_ns, ph::take_shown_deadline(clock)));
  return 0;
}

PH_EXPORT int gettimeofday(timeval* __restrict time, void* __restrict zone) noexcept {
  if (zone != nullptr) *static_cast<struct timezone*>(zone) = {};  // glibc, too, knows no kernel time zone
  const timespec now = ph::to_timespec(now_ns(CLOCK_REALTIME, __builtin_return_address(0)));
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

PH_EXPORT time_t time(time_t* out) noexcept {
  const time_t now_s = now_ns(CLOCK_REALTIME, __builtin_return_address(0)) / ph::kNsPerSecond;
  if (out != nullptr) *out = now_s;
  return now_s;
}

PH_EXPORT int timespec_get(timespec* time, int base) noexcept {
  if (base != TIME_UTC) return 0;
  *time = ph::to_timespec(now_ns(CLOCK_REALTIME, __builtin_return_address(0)));
  return base;
}

}  // extern "C"
