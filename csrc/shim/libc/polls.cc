// Waits for file descriptors. A time-out is virtual time (deadlines.h). Without descriptors they are sleeps (time.sleep
// of Python 3.10 is a select).
#undef _FORTIFY_SOURCE  // its inline definitions of these names would clash with ours
#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <vector>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/libc/alarms.h"
#include "shim/libc/deadlines.h"
#include "shim/libc/framework.h"
#include "shim/libc/outside.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace {

using ph::Nanoseconds;

constexpr Nanoseconds kEndless = -1;
constexpr Nanoseconds kNsPerMs = 1'000'000;

Nanoseconds from_ms(int timeout_ms) noexcept { return timeout_ms < 0 ? kEndless : timeout_ms * kNsPerMs; }

// Rounds up, as the kernel does.
int to_ms(Nanoseconds timeout_ns) noexcept {
  if (timeout_ns < 0) return -1;
  return static_cast<int>(std::min<Nanoseconds>((timeout_ns + kNsPerMs - 1) / kNsPerMs, INT_MAX));
}

Nanoseconds from_timespec(const timespec* timeout) noexcept {
  return timeout == nullptr ? kEndless : ph::to_ns(*timeout);
}

Nanoseconds from_timeval(const timeval* timeout) noexcept {
  return timeout == nullptr ? kEndless : ph::to_ns({timeout->tv_sec, timeout->tv_usec * 1000});
}

// `wait` takes a time-out in real nanoseconds.
template <typename Wait>
int wait_for(Nanoseconds timeout_ns, Wait wait) {
  ph::end_relay();
  if (timeout_ns > 0 && ph::sets_alarms()) {
    if (const int ready = wait(0); ready != 0) return ready;  // nobody has to know
  }
  ph::TimedWait limit(timeout_ns);
  for (;;) {
    const int ready = wait(limit.real_timeout_ns());
    const int error = ready == 0 ? ETIMEDOUT : ready < 0 ? errno : 0;
    switch (limit.judge(error)) {
      case ph::TimedWait::Ended::Returned: return ready;
      case ph::TimedWait::Ended::RanOut: return wait(0);  // after a signal the results are not filled in
      case ph::TimedWait::Ended::TooEarly: break;
    }
  }
}

// The end of a loop of the framework's own may be late by so much, in real time (assumed: nobody minds).
constexpr Nanoseconds kLongestPauseNs = 100 * kNsPerMs;
thread_local Nanoseconds pause_ns = 0;

// Gloo's loop leaves what has come where it is while the program's thread has the lock of its connection, also while
// that waits for its turn to send, and asks again at once: without end, so that no rank was ever found asleep. After so
// many answers in a row it pauses now and then (assumed: seldom enough for a loop that takes what comes).
constexpr std::uint32_t kBusyTurns = 1000, kTurnsBetweenPauses = 20;
constexpr timespec kBusyPause{0, 5'000'000};
constinit thread_local std::uint32_t busy_turns = 0;

void pause_if_busy(int ready) noexcept {
  busy_turns = ready > 0 ? busy_turns + 1 : 0;
  if (busy_turns > kBusyTurns && busy_turns % kTurnsBetweenPauses == 0) syscall(SYS_nanosleep, &kBusyPause, nullptr);
}

// A helper of the framework's that wakes now and then to see whether it is to end (gloo's loop, every 10 ms) does so ever
// less often while nothing comes. Whoever is awake keeps all ranks from being found asleep.
template <typename Wait>
int wait_in_loop(Nanoseconds timeout_ns, const void* caller, Wait wait) {
  const bool is_loop = timeout_ns > 0 && ph::attached() && !ph::sets_alarms() && ph::is_frameworks_own(caller);
  if (!is_loop) return wait_for(timeout_ns, wait);
  const int ready = wait_for(
      timeout_ns, [&](Nanoseconds real_ns) { return wait(real_ns > 0 ? std::max(real_ns, pause_ns) : real_ns); });
  pause_ns = ready == 0 ? std::min(2 * std::max(pause_ns, timeout_ns), kLongestPauseNs) : 0;
  pause_if_busy(ready);
  return ready;
}

bool is_sleep(Nanoseconds timeout_ns, std::uint64_t descriptors) noexcept {
  return descriptors == 0 && timeout_ns >= 0 && ph::clock_virtual();
}

// A wait that replaces the thread's signal mask must still be ended by an alarm.
class OpenMask {
 public:
  explicit OpenMask(const sigset_t* given) noexcept : is_given_(given != nullptr) {
    if (!is_given_) return;
    mask_ = *given;
    sigdelset(&mask_, ph::alarm_signal());
  }
  const sigset_t* get() const noexcept { return is_given_ ? &mask_ : nullptr; }

 private:
  bool is_given_;
  sigset_t mask_{};
};

// The sets of a select are both question and answer, and it may have to be asked again.
class Question {
 public:
  Question(int count, fd_set* reads, fd_set* writes, fd_set* errors) : sets_{reads, writes, errors} {
    words_ = (static_cast<std::size_t>(std::max(count, 0)) + NFDBITS - 1) / NFDBITS;
    for (fd_set* set : sets_) {
      if (set != nullptr) asked_.insert(asked_.end(), set->fds_bits, set->fds_bits + words_);
    }
  }
  void repeat() noexcept {
    const fd_mask* asked = asked_.data();
    for (fd_set* set : sets_) {
      if (set == nullptr) continue;
      std::copy(asked, asked + words_, set->fds_bits);
      asked += words_;
    }
  }

 private:
  fd_set* sets_[3];
  std::size_t words_;
  std::vector<fd_mask> asked_;
};

}  // namespace

extern "C" {

PH_EXPORT int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  static constinit ph::Next<int(pollfd*, nfds_t, int)> next{"poll"};
  if (is_sleep(from_ms(timeout_ms), count)) {
    return ph::sleep_virtual(from_ms(timeout_ms), nullptr, __builtin_return_address(0));
  }
  return wait_for(from_ms(timeout_ms), [&](Nanoseconds real_ns) { return next(descriptors, count, to_ms(real_ns)); });
}

// What poll compiles to with _FORTIFY_SOURCE; the size of the array is the caller's claim and checked by libc.
PH_EXPORT int __poll_chk(pollfd* descriptors, nfds_t count, int timeout_ms, std::size_t bytes) {
  static constinit ph::Next<int(pollfd*, nfds_t, int, std::size_t)> next{"__poll_chk"};
  return wait_for(from_ms(timeout_ms),
                  [&](Nanoseconds real_ns) { return next(descriptors, count, to_ms(real_ns), bytes); });
}

PH_EXPORT int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  static constinit ph::Next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> next{"ppoll"};
  const OpenMask mask(signals);
  return wait_for(from_timespec(timeout), [&](Nanoseconds real_ns) {
    const timespec real = ph::to_timespec(real_ns);
    return next(descriptors, count, real_ns < 0 ? nullptr : &real, mask.get());
  });
}

PH_EXPORT int select(int count, fd_set* __restrict reads, fd_set* __restrict writes, fd_set* __restrict errors,
                     timeval* __restrict timeout) {
  static constinit ph::Next<int(int, fd_set*, fd_set*, fd_set*, timeval*)> next{"select"};
  const Nanoseconds timeout_ns = from_timeval(timeout);
  if (is_sleep(timeout_ns, static_cast<std::uint64_t>(count))) {
    return ph::sleep_virtual(timeout_ns, nullptr, __builtin_return_address(0));
  }
  if (timeout_ns < 0) ph::end_relay();
  if (timeout_ns < 0 || !ph::clock_virtual()) return next(count, reads, writes, errors, timeout);
  Question question(count, reads, writes, errors);
  return wait_for(timeout_ns, [&](Nanoseconds real_ns) {
    question.repeat();
    timeval real{real_ns / ph::kNsPerSecond, real_ns % ph::kNsPerSecond / 1000};
    return next(count, reads, writes, errors, &real);
  });
}

PH_EXPORT int pselect(int count, fd_set* __restrict reads, fd_set* __restrict writes, fd_set* __restrict errors,
                      const timespec* __restrict timeout, const sigset_t* __restrict signals) {
  static constinit ph::Next<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)> next{"pselect"};
  Question question(count, reads, writes, errors);
  const OpenMask mask(signals);
  return wait_for(from_timespec(timeout), [&](Nanoseconds real_ns) {
    question.repeat();
    const timespec real = ph::to_timespec(real_ns);
    return next(count, reads, writes, errors, real_ns < 0 ? nullptr : &real, mask.get());
  });
}

PH_EXPORT int epoll_wait(int set, epoll_event* events, int most_events, int timeout_ms) {
  static constinit ph::Next<int(int, epoll_event*, int, int)> next{"epoll_wait"};
  return wait_in_loop(from_ms(timeout_ms), __builtin_return_address(0),
                      [&](Nanoseconds real_ns) { return next(set, events, most_events, to_ms(real_ns)); });
}

PH_EXPORT int epoll_pwait(int set, epoll_event* events, int most_events, int timeout_ms, const sigset_t* signals) {
  static constinit ph::Next<int(int, epoll_event*, int, int, const sigset_t*)> next{"epoll_pwait"};
  const OpenMask mask(signals);
  return wait_for(from_ms(timeout_ms),
                  [&](Nanoseconds real_ns) { return next(set, events, most_events, to_ms(real_ns), mask.get()); });
}

}  // extern "C"
