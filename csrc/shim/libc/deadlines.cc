#include "shim/libc/deadlines.h"

#include <algorithm>
#include <cerrno>

#include "shim/channel/rank.h"
#include "shim/libc/children.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/repeated_waits.h"
#include "shim/libc/strangers.h"
#include "shim/libc/virtual_clock.h"

namespace ph {

namespace {

// A driver whose alarm does not ring, because it is never proven that its rank is still, waits no longer than that or
// its time-out in real time (assumed: longer than a data loader works at a batch).
constexpr Nanoseconds kPatienceNs = 60 * kNsPerSecond;

}  // namespace

TimedWait::TimedWait(Nanoseconds timeout_ns) noexcept : left_ns_(timeout_ns) {
  if (timeout_ns >= 0 && clock_virtual()) begin(timeout_ns, Until::Alarm, nullptr, nullptr);
}

TimedWait::TimedWait(clockid_t clock, const timespec* deadline, Until until) noexcept
    : clock_(clock), given_(deadline) {
  begin_until(until, nullptr, nullptr);
}

TimedWait::TimedWait(clockid_t clock, const timespec* deadline, pthread_cond_t* condition,
                     pthread_mutex_t* mutex) noexcept
    : clock_(clock), given_(deadline), notifies_(true) {
  begin_until(Until::Alarm, condition, mutex);
}

void TimedWait::begin_until(Until until, pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept {
  if (given_ == nullptr || !clock_virtual()) return;
  if (given_->tv_nsec < 0 || given_->tv_nsec >= kNsPerSecond) return;  // libc answers EINVAL
  const auto epoch_ns = clock_epoch_ns(clock_);
  if (!epoch_ns) return;
  Nanoseconds left_ns = 0;
  if (__builtin_sub_overflow(to_ns(*given_), *epoch_ns + peek_virtual_ns() + told_lead_ns(), &left_ns)) {
    left_ns = given_->tv_sec < 0 ? 0 : kLatest;
  }
  is_frameworks_ = attached() && !sets_alarms() && left_ns > 0;
  if (is_frameworks_) left_ns = shorten_wait(to_ns(*given_) - *epoch_ns, left_ns);
  begin(left_ns, until, condition, mutex);
}

void TimedWait::begin(Nanoseconds left_ns, Until until, pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept {
  limited_ = true;
  left_ns_ = std::clamp(left_ns, Nanoseconds{0}, kLatest);
  host_ns_ = host_clock_ns();
  real_start_ns_ = real_clock_ns();
  const Nanoseconds now_ns = peek_virtual_ns();
  lead_ns_ = latest_virtual_ns() - now_ns;
  // A driver gets a nanosecond more, for who reads a clock must see that the time is over, also when its lead is at its farthest.
  deadline_ns_ = after(now_ns, left_ns_ + (left_ns_ > 0 && drives_clock() ? 1 : 0));
  // A look without waiting is a turn of a loop that polls, which must end as one that reads a clock only.
  if (until != Until::Turn) left_ns_ > 0 ? note_wait() : grow_up();
  if (until == Until::Alarm && left_ns_ > 0 && sets_alarms() && !talks_to_strangers())
    alarm_.emplace(deadline_ns_, condition, mutex);
}

Nanoseconds TimedWait::real_timeout_ns() const noexcept { return alarm_ ? std::max(left_ns_, kPatienceNs) : left_ns_; }

const timespec* TimedWait::real_deadline() noexcept {
  if (!limited_) return given_;
  real_ = to_timespec(real_clock_ns(clock_) + real_timeout_ns());
  return &real_;
}

bool TimedWait::stands_still() const noexcept {
  return drives_clock() && host_clock_ns() == host_ns_ && !waits_for_server();
}

TimedWait::Ended TimedWait::judge(int error) noexcept {
  if (!limited_) return Ended::Returned;
  const bool may_be_rung = error == EINTR || error == ETIMEDOUT || (error == 0 && notifies_);
  const bool rang = alarm_ && may_be_rung && alarm_->rang();
  if (!rang && error != ETIMEDOUT) return Ended::Returned;
  if (alarm_ && !rang) {
    if (!stands_still()) return Ended::TooEarly;
    // What they have done may be what the program waits for.
    const ChildWork work = let_children_work(left_ns_, real_start_ns_);
    if (work == ChildWork::Done) return Ended::TooEarly;
    if (work == ChildWork::None) note_ran_out();
  }
  alarm_.reset();
  if (rang) let_children_work(left_ns_, real_start_ns_);
  pass_deadline(deadline_ns_, lead_ns_, rang);
  if (is_frameworks_) end_wait();
  return Ended::RanOut;
}

}  // namespace ph
