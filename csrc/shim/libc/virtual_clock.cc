// Rules of the virtual clocks:
//
// 1. A clock reads its epoch plus the rank's host clock. While the host clock stands still a driver's reads differ by a
//    nanosecond each, up to 499 ns, and leave it alone: how often a framework looks at the clock while it waits for
//    something outside is a matter of luck. From the four thousandth read on, with no wait in between, each advances
//    the host clock, so that loops which poll a clock end: by host.clock_read_ns, or by a ten-thousandth of what the
//    loop has spun so far. With `--host-time measured` a read first charges what the thread has computed. A sleep until
//    a deadline counts from the last reading, not from the host clock behind it, or luck would get into virtual time
//    there. Python reads a clock whenever it takes a lock, and takes locks whenever it imports a module: such reads do
//    not count.
// 2. A sleep of a framework's own library polls for something outside (the store of torch.distributed does so). It
//    takes real time and no virtual time, for the same reason. Any other driver's sleep moves the host clock and then
//    waits until the simulation has got there, in no more real time than the others need: it may be one turn of a loop
//    that polls for what another rank is to do, and not waiting for the others would burn hours of virtual time at
//    once.
// 3. Other threads sleep and wait in real time. A program computes deadlines from virtual clocks, so libc is given
//    real now + (deadline - virtual now).
// 4. When a driver's wait runs out, the host clock moves to the deadline. When a helper's does, the host clock stays,
//    but the helper may look at the clock again to see that its deadline has come (libstdc++ and Python both do) and
//    would wait for ever. So for that thread the deadline counts as now, while the host clock stands still.
//    Not while the rank waits for the server: then virtual time is about to move by itself, and a watchdog that
//    counted real seconds would find a collective overdue.
#include "shim/libc/virtual_clock.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/core/config.h"
#include "shim/core/own_code.h"
#include "shim/core/rank.h"
#include "shim/core/spin_watch.h"
#include "shim/libc/framework.h"
#include "shim/libc/outside.h"
#include "shim/libc/real_clock.h"

#define PH_THREAD_LOCAL thread_local __attribute__((tls_model("initial-exec")))

namespace ph {

namespace {

// Rule 4: a deadline that this thread waited for, and the host clock then.
struct PassedDeadline {
  std::uint64_t deadline_ns = 0;
  std::uint64_t host_clock_ns = 0;
};
PH_THREAD_LOCAL PassedDeadline passed;

// Rule 1. PyTorch's libraries read a clock a thousand times in a row when they first record something
// (c10::ApproximateClockToUnixTimeConverter::measurePairs), and that twice.
constexpr std::uint64_t kFreeReads = 4000;
constexpr std::uint64_t kFarthestLeadNs = 499;
SpinWatch clock_reads;
std::atomic<std::uint64_t> last_reading_ns{0};
PH_THREAD_LOCAL bool has_read = false;  // a clock, and what the read was for is not known yet

void count_read() noexcept {
  if (clock_reads.note() >= kFreeReads) clock_reads.charge(config().clock_read_ns);
}

// Longer waits count as endless; keeps sums of times far from overflow.
constexpr std::int64_t kLongestWaitNs = 100ll * 365 * 24 * 3600 * kNsPerSecond;

// A helper wakes up this much after its deadline (assumed), so that "until the time left is negative" ends, also
// where a program keeps the time as floating-point seconds, which are 240 ns apart for CLOCK_REALTIME.
constexpr std::uint64_t kWakeUpNs = 1000;

std::uint64_t after(std::uint64_t now_ns, std::int64_t duration_ns) noexcept {
  const std::int64_t bounded_ns = std::clamp(duration_ns, std::int64_t{0}, kLongestWaitNs);
  return now_ns + static_cast<std::uint64_t>(bounded_ns);
}

// Until the simulation has reached this rank's host clock.
void wait_for_others() noexcept {
  Record record{};
  record.id = static_cast<std::uint32_t>(WaitKind::Resume);
  wait(record);
}

// A wait of a driver took that long. The lead of its clock reads over the host clock stays, so that who reads before
// and after sees more than the time waited.
void move_on(std::uint64_t duration_ns) noexcept {
  last_reading_ns.store(latest_virtual_ns() + duration_ns, std::memory_order_relaxed);
  clock_reads.move(duration_ns);
}

void note_wait() noexcept {
  if (drives_clock()) clock_reads.note_wait();
}

int sleep_really(std::int64_t duration_ns, timespec* remaining) noexcept {
  note_wait();
  const timespec duration = to_timespec(duration_ns);
  // The system call itself is a libc function that sets errno.
  return static_cast<int>(syscall(SYS_nanosleep, &duration, remaining));
}

// A framework's own sleep is a turn of a loop that looks outside. The agent must not take it for the end of the wait.
// What the loop waits for has happened when others say so, and not later because the turns get longer.
int nap(std::int64_t duration_ns) noexcept {
  constexpr std::int64_t kLongestNapNs = 10'000'000;
  begin_nap();
  sleep_really(std::min(duration_ns, kLongestNapNs), nullptr);
  end_nap();
  note_nap();
  return 0;
}

}  // namespace

bool drives_clock() noexcept { return attached() && is_driver(); }

std::optional<std::int64_t> clock_epoch_ns(clockid_t clock) noexcept {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI: return static_cast<std::int64_t>(config().epoch_realtime_ns);
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM: return static_cast<std::int64_t>(config().epoch_monotonic_ns);
    default: return std::nullopt;
  }
}

std::uint64_t peek_virtual_ns() noexcept {
  const std::uint64_t now_ns = host_clock_ns();
  return passed.host_clock_ns == now_ns ? std::max(now_ns, passed.deadline_ns) : now_ns;
}

std::uint64_t read_virtual_ns() noexcept {
  if (!drives_clock()) return peek_virtual_ns();
  const OwnCode own;
  if (std::exchange(has_read, true)) count_read();
  const std::uint64_t host_ns = host_clock_ns();
  std::uint64_t last_ns = last_reading_ns.load(std::memory_order_relaxed);
  std::uint64_t reading_ns = 0;
  do {
    reading_ns = std::max(host_ns + 1, std::min(last_ns + 1, host_ns + kFarthestLeadNs));
  } while (!last_reading_ns.compare_exchange_weak(last_ns, reading_ns, std::memory_order_relaxed));
  return reading_ns;
}

void forget_read() noexcept { has_read = false; }

std::uint64_t latest_virtual_ns() noexcept {
  const std::uint64_t now_ns = peek_virtual_ns();
  return drives_clock() ? std::max(now_ns, last_reading_ns.load(std::memory_order_relaxed)) : now_ns;
}

void catch_up(const void* caller) noexcept {
  if (drives_clock() && is_aside() && !is_frameworks_own(caller)) resume_if_aside();
}

void pass_deadline(std::uint64_t deadline_ns) noexcept {
  const std::uint64_t now_ns = host_clock_ns();
  if (drives_clock()) {
    if (deadline_ns > now_ns) move_on(deadline_ns - now_ns + 1);
  } else if (!waits_for_server()) {
    passed = {deadline_ns + kWakeUpNs, now_ns};
  }
}

RelativeWait::RelativeWait(std::int64_t timeout_ns) noexcept {
  if (timeout_ns < 0 || !clock_virtual()) return;
  note_wait();
  limited_ = true;
  deadline_ns_ = after(peek_virtual_ns(), timeout_ns);
}

void RelativeWait::ran_out() const noexcept {
  if (limited_) pass_deadline(deadline_ns_);
}

AbsoluteWait::AbsoluteWait(clockid_t clock, const timespec* deadline) noexcept : given_(deadline) {
  if (deadline == nullptr || !clock_virtual()) return;
  if (deadline->tv_nsec < 0 || deadline->tv_nsec >= kNsPerSecond) return;  // libc answers EINVAL
  const auto epoch_ns = clock_epoch_ns(clock);
  if (!epoch_ns) return;
  translated_ = true;
  const std::uint64_t now_ns = peek_virtual_ns();
  const std::int64_t clock_now_ns = *epoch_ns + static_cast<std::int64_t>(now_ns);
  std::int64_t left_ns = 0;
  if (__builtin_sub_overflow(to_ns(*deadline), clock_now_ns, &left_ns)) {
    left_ns = deadline->tv_sec < 0 ? 0 : kLongestWaitNs;
  }
  left_ns = std::clamp(left_ns, std::int64_t{0}, kLongestWaitNs);
  note_wait();
  deadline_ns_ = after(now_ns, left_ns);
  real_ = to_timespec(static_cast<std::int64_t>(real_clock_ns(clock)) + left_ns);
}

void AbsoluteWait::ran_out() const noexcept {
  if (translated_) pass_deadline(deadline_ns_);
}

int sleep_virtual(std::int64_t duration_ns, timespec* remaining, const void* caller) noexcept {
  const OwnCode own;
  if (drives_clock() && is_frameworks_own(caller)) return nap(duration_ns);
  if (drives_clock()) {
    note_wait();
    move_on(after(0, duration_ns));
    wait_for_others();
    return 0;
  }
  const RelativeWait sleep(duration_ns);
  if (sleep_really(duration_ns, remaining) != 0) return -1;
  sleep.ran_out();
  return 0;
}

}  // namespace ph
