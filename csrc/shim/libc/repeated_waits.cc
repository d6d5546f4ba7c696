#include "shim/libc/repeated_waits.h"

#include <algorithm>
#include <utility>

namespace ph {

namespace {

struct Wait {
  Nanoseconds deadline_ns = 0;
  Nanoseconds left_ns = 0;
  bool is_shortened = false;
  bool has_run_out = false;

  // libstdc++ converts the deadline from one clock to another at each turn, so that it may differ by a little; one that
  // a thread computes when a wait has run out is later by all that the next wait is to take.
  bool is_until(Nanoseconds other_ns) const noexcept {
    return other_ns > deadline_ns - left_ns / 2 && other_ns < deadline_ns + left_ns / 2;
  }
};
thread_local Wait last;
thread_local Nanoseconds shown_ns[2] = {0, 0};  // by the clock of the day, and others

Nanoseconds& shown_by(clockid_t clock) noexcept { return shown_ns[clock == CLOCK_REALTIME ? 0 : 1]; }

}  // namespace

Nanoseconds shorten_wait(Nanoseconds deadline_ns, Nanoseconds left_ns) noexcept {
  shown_ns[0] = shown_ns[1] = 0;
  Nanoseconds meant_ns = left_ns;
  if (last.has_run_out && last.is_until(deadline_ns)) meant_ns = last.left_ns;
  else if (last.has_run_out && deadline_ns > last.deadline_ns) meant_ns = deadline_ns - last.deadline_ns;
  last = {deadline_ns, std::min(left_ns, meant_ns), meant_ns < left_ns, false};
  return last.left_ns;
}

void end_wait() noexcept {
  last.has_run_out = true;
  if (last.is_shortened) shown_ns[0] = shown_ns[1] = last.deadline_ns;
}

Nanoseconds take_shown_deadline(clockid_t clock) noexcept { return std::exchange(shown_by(clock), 0); }

}  // namespace ph
