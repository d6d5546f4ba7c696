// Rules of the virtual clocks:
//
// 1. A clock reads its epoch plus the rank's host clock. While the host clock stands still a driver's reads differ by a
//    nanosecond each, up to 499 ns, and leave it alone: how often a framework looks at the clock while it waits for
//    something outside differs from run to run. From the four thousandth read on, with no wait in between, each advances
//    the host clock, so that loops which poll a clock end: by host.clock_read_ns, and by as much again for each ten
//    thousand reads so far (SpinWatch). Before the four thousandth, and whenever there are twice as many, the rank's
//    children do what they have to do, for the loop may poll for that. A poll without a time-out is no wait. With `--host-time measured` a read first charges what the thread has computed. A sleep until
//    a deadline counts from the last reading, not from the host clock behind it, or luck would get into virtual time
//    there. Python reads a clock whenever it takes a lock, and takes locks whenever it imports a module: such reads do
//    not count.
// 2. A sleep of a framework's own library polls for something outside (the store of torch.distributed does so). It
//    takes real time and no virtual time, for the same reason. Any other driver's sleep moves the host clock and then
//    waits until the simulation has got there, in no more real time than the others need: it may be one turn of a loop
//    that polls for what another rank is to do, and not waiting for the others would burn hours of virtual time at
//    once.
// 3. A wait of the program with a time-out, on any thread, and a sleep of a thread that does not drive, end when the
//    simulation has reached their deadline (alarms.cc). A driver's host clock is then there. Another thread's view of
//    the clock is: the host clock may be behind, because the rank waits for something else.
// 4. Threads of the framework's own wait in real time: libc is given real now + (deadline - virtual now). When such a
//    wait runs out, the thread may look at the clock again to see that its deadline has come (libstdc++ does) and
//    would wait for ever. So for that thread the deadline counts as now, while the host clock stands still, and up to
//    a minute. Not while the rank waits for the server: then virtual time is about to move by itself, and a watchdog
//    that counted real seconds would find a collective overdue. A wait of no time is over in any case: Python's
//    Connection.poll() asks until it sees that, and would never sleep.
//    When the host clock moves, that thread's goes back to it. A deadline that it has computed before is further away then,
//    by up to that minute: its wait takes no longer for that, and ends (repeated_waits.cc).
// 5. For such a thread the clock never runs faster than real time. A watchdog gets its turns in real time; when virtual
//    time leaps meanwhile it would think that it had not been called, or that a collective was overdue that has long
//    been done.
#include "shim/libc/virtual_clock.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/own_code.h"
#include "shim/host_time/clock_marks.h"
#include "shim/host_time/spin_watch.h"
#include "shim/libc/alarms.h"
#include "shim/libc/children.h"
#include "shim/libc/framework.h"
#include "shim/libc/interpreter.h"
#include "shim/libc/outside.h"
#include "shim/libc/real_clock.h"

namespace ph {

namespace {

// Rule 3: to where an alarm of this thread has come.
thread_local Nanoseconds rang_ns = 0;

// When this thread was created, while nothing else is known (threads.cc); kNever: it has grown up.
thread_local Nanoseconds born_ns = kNever;

// Rule 4: a deadline that this thread waited for, and the host clock then.
struct PassedDeadline {
  Nanoseconds deadline_ns = 0;
  Nanoseconds host_clock_ns = 0;
};
thread_local PassedDeadline passed;
// Assumed: less than any time-out of a watchdog, more than what a framework's thread spends on housekeeping.
constexpr Nanoseconds kFarthestPassedNs = 60 * kNsPerSecond;

// Rule 5: the last reading of this thread, and when that was.
struct LastReading {
  Nanoseconds virtual_ns = 0;
  Nanoseconds real_ns = 0;
};
thread_local LastReading last_slow;

// Rule 1. PyTorch's libraries read a clock a thousand times in a row when they first record something
// (c10::ApproximateClockToUnixTimeConverter::measurePairs), and that twice.
constexpr std::uint64_t kFreeReads = 4000;
constexpr Nanoseconds kFarthestLeadNs = 499;
// Assumed: a program that times two million short things one by one sees 8 s, a deadline of 60 s takes 5.5 million reads.
SpinWatch clock_reads{10'000};
std::atomic<Nanoseconds> last_reading_ns{0};
thread_local bool has_read = false;  // a clock, and what the read was for is not known yet
thread_local Nanoseconds lead_told_ns = 0;

void count_read() noexcept {
  const std::uint64_t reads = clock_reads.note();
  if (reads < kFreeReads) return;
  if (reads % kFreeReads == 0 && std::has_single_bit(reads / kFreeReads)) let_children_work(1, real_clock_ns());
  const PendingClockRead kept;
  clock_reads.charge(config().clock_read_ns);
}

Nanoseconds next_reading_ns() noexcept {
  const Nanoseconds host_ns = host_clock_ns();
  Nanoseconds last_ns = last_reading_ns.load(std::memory_order_relaxed);
  Nanoseconds reading_ns = 0;
  do {
    reading_ns = std::max(host_ns + 1, std::min(last_ns + 1, host_ns + kFarthestLeadNs));
  } while (!last_reading_ns.compare_exchange_weak(last_ns, reading_ns, std::memory_order_relaxed));
  return reading_ns;
}

// A helper wakes up this much after its deadline (assumed), so that "until the time left is negative" ends, also
// where a program keeps the time as floating-point seconds, which are 240 ns apart for CLOCK_REALTIME.
constexpr Nanoseconds kWakeUpNs = 1000;

// A wait of a driver has come to its end. The lead of its clock reads over the host clock stays, so that who reads
// before and after sees more than the time waited.
void reach(Nanoseconds deadline_ns, Nanoseconds lead_ns) noexcept {
  const Nanoseconds now_ns = host_clock_ns();
  if (deadline_ns > now_ns) clock_reads.move(deadline_ns - now_ns);
  Nanoseconds last_ns = last_reading_ns.load(std::memory_order_relaxed);
  while (last_ns < deadline_ns + lead_ns &&
         !last_reading_ns.compare_exchange_weak(last_ns, deadline_ns + lead_ns, std::memory_order_relaxed)) {
  }
}

int tell_rest(Nanoseconds rest_ns, timespec* remaining) noexcept {
  if (remaining != nullptr) *remaining = to_timespec(std::max(rest_ns, Nanoseconds{0}));
  errno = EINTR;
  return -1;
}

// A rank's child sleeps in a way by which the agent knows it (`is_proven_still` in phantora_py/agent/idle.py).
int sleep_as_child(Nanoseconds duration_ns, timespec* remaining) noexcept {
  const Nanoseconds start_ns = real_clock_ns();
  const timespec duration = to_timespec(duration_ns);
  const std::uint64_t none = 0;  // a set of signals, as large as the kernel's
  if (syscall(SYS_rt_sigtimedwait, &none, nullptr, &duration, sizeof none) == -1 && errno == EINTR)
    return tell_rest(duration_ns - (real_clock_ns() - start_ns), remaining);
  return 0;
}

int sleep_really(Nanoseconds duration_ns, timespec* remaining) noexcept {
  note_wait();
  if (!attached()) return sleep_as_child(duration_ns, remaining);
  const timespec duration = to_timespec(duration_ns);
  // The system call itself is a libc function that sets errno.
  return static_cast<int>(syscall(SYS_nanosleep, &duration, remaining));
}

int sleep_until_alarm(Nanoseconds deadline_ns, timespec* remaining) noexcept {
  const Nanoseconds asked_ns = deadline_ns - peek_virtual_ns();
  const Nanoseconds since_ns = real_clock_ns();
  {
    Alarm alarm(deadline_ns);
    if (!alarm.sleep()) return tell_rest(deadline_ns - peek_virtual_ns(), remaining);
  }
  let_children_work(asked_ns, since_ns);
  pass_deadline(deadline_ns, 0, true);
  return 0;
}

// A framework's own sleep is a turn of a loop that looks outside. The agent must not take it for the end of the wait.
// What the loop waits for has happened when others say so, and not later because the turns get longer.
int poll_sleep(Nanoseconds duration_ns) noexcept {
  constexpr Nanoseconds kLongestPollSleepNs = 10'000'000;
  begin_poll_sleep();
  sleep_really(std::min(duration_ns, kLongestPollSleepNs), nullptr);
  end_poll_sleep();
  note_poll_sleep();
  return 0;
}

}  // namespace

bool drives_clock() noexcept { return attached() && is_driver(); }
bool polls_clock() noexcept { return clock_reads.has_noted(kFreeReads); }

std::optional<Nanoseconds> clock_epoch_ns(clockid_t clock) noexcept {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI: return config().epoch_realtime_ns;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM: return config().epoch_monotonic_ns;
    default: return std::nullopt;
  }
}

Nanoseconds real_time_since_start_ns() noexcept {
  return real_clock_ns(CLOCK_MONOTONIC) - config().number("epoch.monotonic_ns");
}

Nanoseconds after(Nanoseconds now_ns, Nanoseconds duration_ns) noexcept {
  return std::min(now_ns + std::clamp(duration_ns, Nanoseconds{0}, kLatest), kLatest);
}

void note_wait() noexcept {
  if (drives_clock()) clock_reads.note_wait();
  grow_up();
}

void be_born(Nanoseconds time_ns) noexcept { born_ns = time_ns; }
void grow_up() noexcept { born_ns = kNever; }

Nanoseconds peek_virtual_ns() noexcept {
  const Nanoseconds host_ns = host_clock_ns();
  Nanoseconds now_ns = std::max(std::min(host_ns, born_ns), rang_ns);
  if (passed.host_clock_ns == host_ns) now_ns = std::max(now_ns, passed.deadline_ns);
  if (!attached() || is_driver() || is_programs_thread()) return now_ns;
  const Nanoseconds real_ns = real_clock_ns();
  if (last_slow.real_ns != 0) now_ns = std::min(now_ns, last_slow.virtual_ns + (real_ns - last_slow.real_ns));
  last_slow = {now_ns, real_ns};
  return now_ns;
}

Nanoseconds read_virtual_ns() noexcept {
  if (!drives_clock()) return peek_virtual_ns();
  const OwnCode own;
  if (std::exchange(has_read, true)) count_read();
  const Nanoseconds reading_ns = next_reading_ns();
  lead_told_ns = reading_ns - host_clock_ns();
  return reading_ns;
}

Nanoseconds observe_virtual_ns() noexcept {
  if (!drives_clock()) return shown_virtual_ns();
  const OwnCode own;
  return next_reading_ns();
}

Nanoseconds shown_virtual_ns() noexcept {
  const OwnCode own;
  const Nanoseconds host_ns = host_clock_ns();
  return std::clamp(last_reading_ns.load(std::memory_order_relaxed), host_ns, host_ns + kFarthestLeadNs);
}

void forget_read() noexcept {
  has_read = false;
  drop_clock_read();
}
void tell_no_lead() noexcept { lead_told_ns = 0; }
Nanoseconds told_lead_ns() noexcept { return lead_told_ns; }

Nanoseconds latest_virtual_ns() noexcept {
  const Nanoseconds now_ns = peek_virtual_ns();
  return drives_clock() ? std::max(now_ns, last_reading_ns.load(std::memory_order_relaxed)) : now_ns;
}

void catch_up(const void* caller) noexcept {
  if (!drives_clock() || !must_resume() || is_frameworks_own(caller)) return;
  if (is_of_python(caller)) end_turn();  // the framework's loops are C++
  else if (reads_as_turn()) return;
  resume_if_aside();
}

void pass_deadline(Nanoseconds deadline_ns, Nanoseconds lead_ns, bool rang) noexcept {
  if (drives_clock()) {
    resume_if_aside();
    reach(deadline_ns, lead_ns);
  } else if (rang) {
    rang_ns = deadline_ns + kWakeUpNs;
  } else if (!waits_for_server() || deadline_ns <= peek_virtual_ns()) {
    const Nanoseconds now_ns = host_clock_ns();
    passed = {std::min(deadline_ns + kWakeUpNs, now_ns + kFarthestPassedNs), now_ns};
  }
}

int sleep_virtual(Nanoseconds duration_ns, timespec* remaining, const void* caller) noexcept {
  const OwnCode own;
  const bool frameworks = is_frameworks_own(caller);
  if (drives_clock() && frameworks) return poll_sleep(duration_ns);
  const bool polls = frameworks && attached() && is_programs_thread() && polls_outside();
  const Nanoseconds deadline_ns = after(peek_virtual_ns(), duration_ns);
  if (drives_clock()) {
    note_wait();
    let_children_work(duration_ns, real_clock_ns());
    const Nanoseconds lead_ns = latest_virtual_ns() - host_clock_ns();
    wait_for_simulation(after(0, duration_ns));
    reach(deadline_ns, lead_ns);
    return 0;
  }
  if (sets_alarms() && !frameworks) {
    note_wait();
    return sleep_until_alarm(deadline_ns, remaining);
  }
  if (polls) poll_sleep(duration_ns);
  else if (sleep_really(duration_ns, remaining) != 0) return -1;
  pass_deadline(deadline_ns, 0, false);
  return 0;
}

}  // namespace ph
