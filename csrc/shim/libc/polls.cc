// Waits for file descriptors. Their time-outs are relative and run in real time, since what they wait for comes from
// outside; but one that runs out took that long in virtual time too, or a loop of the form "poll until the deadline"
// (asyncio, multiprocessing) would never reach its deadline. Without descriptors they are sleeps (time.sleep of
// Python 3.10 is a select).
#undef _FORTIFY_SOURCE  // its inline definitions of these names would clash with ours
#include <cerrno>
#include <ctime>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "shim/core/rank.h"
#include "shim/libc/outside.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace {

constexpr std::int64_t kEndless = -1;

std::int64_t from_ms(int timeout_ms) noexcept {
  return timeout_ms < 0 ? kEndless : timeout_ms * std::int64_t{1'000'000};
}

std::int64_t from_timespec(const timespec* timeout) noexcept {
  return timeout == nullptr ? kEndless : ph::to_ns(*timeout);
}

std::int64_t from_timeval(const timeval* timeout) noexcept {
  return timeout == nullptr ? kEndless : ph::to_ns({timeout->tv_sec, timeout->tv_usec * 1000});
}

template <typename Wait>
int wait_for(std::int64_t timeout_ns, Wait wait) {
  const ph::RelativeWait limit(timeout_ns);
  ph::end_relay();
  const int ready = wait();
  if (ready == 0) limit.ran_out();
  return ready;
}

bool is_sleep(std::int64_t timeout_ns, std::uint64_t descriptors) noexcept {
  return descriptors == 0 && timeout_ns >= 0 && ph::clock_virtual();
}

}  // namespace

extern "C" {

PH_EXPORT int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  static constinit ph::Next<int(pollfd*, nfds_t, int)> next{"poll"};
  if (is_sleep(from_ms(timeout_ms), count)) {
    return ph::sleep_virtual(from_ms(timeout_ms), nullptr, __builtin_return_address(0));
  }
  return wait_for(from_ms(timeout_ms), [&] { return next(descriptors, count, timeout_ms); });
}

// What poll compiles to with _FORTIFY_SOURCE; the size of the array is the caller's claim and checked by libc.
PH_EXPORT int __poll_chk(pollfd* descriptors, nfds_t count, int timeout_ms, std::size_t bytes) {
  static constinit ph::Next<int(pollfd*, nfds_t, int, std::size_t)> next{"__poll_chk"};
  return wait_for(from_ms(timeout_ms), [&] { return next(descriptors, count, timeout_ms, bytes); });
}

PH_EXPORT int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  static constinit ph::Next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> next{"ppoll"};
  return wait_for(from_timespec(timeout), [&] { return next(descriptors, count, timeout, signals); });
}

PH_EXPORT int select(int count, fd_set* __restrict reads, fd_set* __restrict writes, fd_set* __restrict errors,
                     timeval* __restrict timeout) {
  static constinit ph::Next<int(int, fd_set*, fd_set*, fd_set*, timeval*)> next{"select"};
  const std::int64_t timeout_ns = from_timeval(timeout);  // before the call: Linux writes the rest into it
  if (is_sleep(timeout_ns, static_cast<std::uint64_t>(count))) {
    return ph::sleep_virtual(timeout_ns, nullptr, __builtin_return_address(0));
  }
  return wait_for(timeout_ns, [&] { return next(count, reads, writes, errors, timeout); });
}

PH_EXPORT int pselect(int count, fd_set* __restrict reads, fd_set* __restrict writes, fd_set* __restrict errors,
                      const timespec* __restrict timeout, const sigset_t* __restrict signals) {
  static constinit ph::Next<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)> next{"pselect"};
  return wait_for(from_timespec(timeout), [&] { return next(count, reads, writes, errors, timeout, signals); });
}

PH_EXPORT int epoll_wait(int set, epoll_event* events, int most_events, int timeout_ms) {
  static constinit ph::Next<int(int, epoll_event*, int, int)> next{"epoll_wait"};
  return wait_for(from_ms(timeout_ms), [&] { return next(set, events, most_events, timeout_ms); });
}

PH_EXPORT int epoll_pwait(int set, epoll_event* events, int most_events, int timeout_ms, const sigset_t* signals) {
  static constinit ph::Next<int(int, epoll_event*, int, int, const sigset_t*)> next{"epoll_pwait"};
  return wait_for(from_ms(timeout_ms), [&] { return next(set, events, most_events, timeout_ms, signals); });
}

}  // extern "C"
