// Sleeps by relative time or until a deadline on a virtual clock.
#include <algorithm>
#include <cerrno>
#include <ctime>

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/libc/child_watch.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace {

using ph::Nanoseconds;

bool is_valid(const timespec& time) noexcept {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < ph::kNsPerSecond;
}

// A process that is no rank, which has looked in vain whether a child of its own has ended, waits for that and not for the
// clock. It sleeps in another way than those that do, by which the agent knows it (`sleeps_by_clock` in
// phantora_py/agent/idle.py).
int sleep_for_child(Nanoseconds duration_ns, timespec* remaining) noexcept {
  timespec left = ph::to_timespec(std::max(duration_ns, Nanoseconds{0}));
  const long slept = syscall(SYS_ppoll, nullptr, 0, &left, nullptr, 0);
  if (slept == 0) return 0;
  if (remaining != nullptr) *remaining = left;
  return -1;
}

}  // namespace

extern "C" {

PH_EXPORT int nanosleep(const timespec* duration, timespec* remaining) {
  static constinit ph::Next<int(const timespec*, timespec*)> next{"nanosleep"};
  if (duration == nullptr || !is_valid(*duration)) return next(duration, remaining);
  if (ph::awaits_child()) return sleep_for_child(ph::to_ns(*duration), remaining);
  if (!ph::clock_virtual()) return next(duration, remaining);
  return ph::sleep_virtual(ph::to_ns(*duration), remaining, __builtin_return_address(0));
}

// Returns the error and leaves errno alone.
PH_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* remaining) {
  static constinit ph::Next<int(clockid_t, int, const timespec*, timespec*)> next{"clock_nanosleep"};
  const bool for_child = ph::awaits_child();
  if (time == nullptr || !is_valid(*time) || (!for_child && !ph::clock_virtual()))
    return next(clock, flags, time, remaining);
  const auto epoch_ns = ph::clock_epoch_ns(clock);
  if (!epoch_ns) return next(clock, flags, time, remaining);

  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  Nanoseconds duration_ns = ph::to_ns(*time);
  if (absolute) duration_ns -= for_child ? ph::real_clock_ns(clock) : *epoch_ns + ph::latest_virtual_ns();
  if (duration_ns <= 0) return 0;
  const int saved_errno = errno;
  timespec* const rest = absolute ? nullptr : remaining;
  const int slept = for_child ? sleep_for_child(duration_ns, rest)
                              : ph::sleep_virtual(duration_ns, rest, __builtin_return_address(0));
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
