// Sleeps by relative time or until a deadline on a virtual clock.
#include <cerrno>
#include <ctime>

#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace {

bool is_valid(const timespec& time) noexcept {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < ph::kNsPerSecond;
}

}  // namespace

extern "C" {

PH_EXPORT int nanosleep(const timespec* duration, timespec* remaining) {
  static constinit ph::Next<int(const timespec*, timespec*)> next{"nanosleep"};
  if (!ph::clock_virtual() || duration == nullptr || !is_valid(*duration)) return next(duration, remaining);
  return ph::sleep_virtual(ph::to_ns(*duration), remaining, __builtin_return_address(0));
}

// Returns the error and leaves errno alone.
PH_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* remaining) {
  static constinit ph::Next<int(clockid_t, int, const timespec*, timespec*)> next{"clock_nanosleep"};
  if (!ph::clock_virtual() || time == nullptr || !is_valid(*time)) return next(clock, flags, time, remaining);
  const auto epoch_ns = ph::clock_epoch_ns(clock);
  if (!epoch_ns) return next(clock, flags, time, remaining);

  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  ph::Nanoseconds duration_ns = ph::to_ns(*time);
  if (absolute) duration_ns -= *epoch_ns + ph::latest_virtual_ns();
  if (duration_ns <= 0) return 0;
  const int saved_errno = errno;
  const int slept = ph::sleep_virtual(duration_ns, absolute ? nullptr : remaining, __builtin_return_address(0));
  const int error = slept == 0 ? 0 : errno;
  errno = saved_errno;
  return error;
}

PH_EXPORT int usleep(useconds_t duration_us) {
  static constinit ph::Next<int(useconds_t)> next{"usleep"};
  if (!ph::clock_virtual()) return next(duration_us);
  return ph::sleep_virtual(ph::Nanoseconds{duration_us} * 1000, nullptr, __builtin_return_address(0));
}

PH_EXPORT unsigned sleep(unsigned duration_s) {
  static constinit ph::Next<unsigned(unsigned)> next{"sleep"};
  if (!ph::clock_virtual()) return next(duration_s);
  timespec remaining{};
  if (ph::sleep_virtual(duration_s * ph::kNsPerSecond, &remaining, __builtin_return_address(0)) == 0) return 0;
  return static_cast<unsigned>(remaining.tv_sec + (remaining.tv_nsec > 0 ? 1 : 0));
}

}  // extern "C"
