// Waits with an absolute deadline, which the program computed from a virtual clock. See deadlines.h.
#include <cerrno>
#include <ctime>

#include <pthread.h>
#include <semaphore.h>

#include "shim/channel/rank.h"
#include "shim/host_time/clock_marks.h"
#include "shim/libc/deadlines.h"
#include "shim/libc/gil.h"
#include "shim/libc/interpreter.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace {

using ph::TimedWait;

constexpr timespec kLongAgo{};
constexpr timespec kFarOff{ph::kNever / ph::kNsPerSecond, 0};

// `wait` takes the real deadline and returns an error code.
template <typename Wait>
int wait_until(TimedWait& until, Wait wait) {
  for (;;) {
    const int error = wait(until.real_deadline());
    switch (until.judge(error)) {
      case TimedWait::Ended::Returned: return error;
      case TimedWait::Ended::RanOut: return wait(&kLongAgo);  // a child may have ended the wait since
      case TimedWait::Ended::TooEarly: break;
    }
  }
}

// Locks: glibc goes on waiting after a signal.
template <typename Wait>
int wait_really_until(clockid_t clock, const timespec* deadline, Wait wait) {
  TimedWait until(clock, deadline, TimedWait::Until::RealTime);
  return wait_until(until, wait);
}

// For functions that return -1 and set errno.
template <typename Wait>
int wait_until_errno(clockid_t clock, const timespec* deadline, Wait wait) {
  TimedWait until(clock, deadline, TimedWait::Until::Alarm);
  const int error = wait_until(until, [&](const timespec* real) { return wait(real) == 0 ? 0 : errno; });
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// The clock of a condition variable is in an attribute of it that cannot be asked for, and its place in glibc's
// structure has moved (2.41). The deadline itself tells: wall-clock times are half a century after boot times. What is
// on the wrong side of the middle is decades in the past or the future on either clock, and means the same.
clockid_t clock_of(const timespec* deadline) noexcept {
  if (deadline == nullptr || !ph::clock_virtual()) return CLOCK_REALTIME;
  const ph::Nanoseconds middle_ns = (*ph::clock_epoch_ns(CLOCK_REALTIME) - *ph::clock_epoch_ns(CLOCK_MONOTONIC)) / 2 +
                                    *ph::clock_epoch_ns(CLOCK_MONOTONIC);
  return ph::to_ns(*deadline) < middle_ns ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

}  // namespace

extern "C" {

PH_EXPORT int pthread_cond_timedwait(pthread_cond_t* __restrict condition, pthread_mutex_t* __restrict mutex,
                                     const timespec* __restrict deadline) {
  const void* const caller = __builtin_return_address(0);
  // x86-64 also has the structure of LinuxThreads, under the version that plain dlsym would give.
  static constinit ph::Next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)> next{"pthread_cond_timedwait",
                                                                                          "GLIBC_2.3.2"};
  const clockid_t clock = clock_of(deadline);
  if (ph::is_wait_for_gil(caller)) {
    TimedWait turn(clock, deadline, TimedWait::Until::Turn);
    return next(condition, mutex, ph::is_gil_kept(condition, mutex) ? &kFarOff : turn.real_deadline());
  }
  TimedWait until(clock, deadline, condition, mutex);
  return wait_until(until, [&](const timespec* real) { return next(condition, mutex, real); });
}

PH_EXPORT int pthread_cond_clockwait(pthread_cond_t* __restrict condition, pthread_mutex_t* __restrict mutex,
                                     clockid_t clock, const timespec* __restrict deadline) {
  static constinit ph::Next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)> next{
      "pthread_cond_clockwait"};
  TimedWait until(clock, deadline, condition, mutex);
  return wait_until(until, [&](const timespec* real) { return next(condition, mutex, clock, real); });
}

// Python's locks are semaphores. It tries first, for which it reads a clock to no end (PyThread_acquire_lock_timed of
// Python 3.11).
PH_EXPORT int sem_trywait(sem_t* semaphore) noexcept {
  static constinit ph::Next<int(sem_t*)> next{"sem_trywait"};
  if (ph::clock_virtual() && ph::is_lock_of_python(__builtin_return_address(0))) ph::forget_read();
  return next(semaphore);
}

PH_EXPORT int sem_timedwait(sem_t* __restrict semaphore, const timespec* __restrict deadline) {
  static constinit ph::Next<int(sem_t*, const timespec*)> next{"sem_timedwait"};
  return wait_until_errno(CLOCK_REALTIME, deadline, [&](const timespec* real) { return next(semaphore, real); });
}

PH_EXPORT int sem_clockwait(sem_t* __restrict semaphore, clockid_t clock, const timespec* __restrict deadline) {
  static constinit ph::Next<int(sem_t*, clockid_t, const timespec*)> next{"sem_clockwait"};
  if (ph::is_lock_of_python(__builtin_return_address(0))) ph::drop_clock_read();
  return wait_until_errno(clock, deadline, [&](const timespec* real) { return next(semaphore, clock, real); });
}

PH_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* __restrict mutex, const timespec* __restrict deadline) noexcept {
  static constinit ph::Next<int(pthread_mutex_t*, const timespec*)> next{"pthread_mutex_timedlock"};
  return wait_really_until(CLOCK_REALTIME, deadline, [&](const timespec* real) { return next(mutex, real); });
}

PH_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* __restrict mutex, clockid_t clock,
                                      const timespec* __restrict deadline) noexcept {
  static constinit ph::Next<int(pthread_mutex_t*, clockid_t, const timespec*)> next{"pthread_mutex_clocklock"};
  return wait_really_until(clock, deadline, [&](const timespec* real) { return next(mutex, clock, real); });
}

PH_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t* __restrict lock,
                                         const timespec* __restrict deadline) noexcept {
  static constinit ph::Next<int(pthread_rwlock_t*, const timespec*)> next{"pthread_rwlock_timedrdlock"};
  return wait_really_until(CLOCK_REALTIME, deadline, [&](const timespec* real) { return next(lock, real); });
}

PH_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t* __restrict lock,
                                         const timespec* __restrict deadline) noexcept {
  static constinit ph::Next<int(pthread_rwlock_t*, const timespec*)> next{"pthread_rwlock_timedwrlock"};
  return wait_really_until(CLOCK_REALTIME, deadline, [&](const timespec* real) { return next(lock, real); });
}

PH_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t* __restrict lock, clockid_t clock,
                                         const timespec* __restrict deadline) noexcept {
  static constinit ph::Next<int(pthread_rwlock_t*, clockid_t, const timespec*)> next{"pthread_rwlock_clockrdlock"};
  return wait_really_until(clock, deadline, [&](const timespec* real) { return next(lock, clock, real); });
}

PH_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t* __restrict lock, clockid_t clock,
                                         const timespec* __restrict deadline) noexcept {
  static constinit ph::Next<int(pthread_rwlock_t*, clockid_t, const timespec*)> next{"pthread_rwlock_clockwrlock"};
  return wait_really_until(clock, deadline, [&](const timespec* real) { return next(lock, clock, real); });
}

}  // extern "C"
