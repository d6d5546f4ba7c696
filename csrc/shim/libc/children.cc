// Rules of child processes (docs/decisions/outside-waits.md tells why):
//
// 1. What a child does takes no virtual time. A sleep of the rank, or a time-out of one of its waits, is therefore over
//    when all its children have done what they have to do, and its threads what follows from that. The agent looks
//    (phantora_py/agent/children.py), and leaves the rank where it is meanwhile.
// 2. A child that sleeps by the real clock gets the time that the rank wants to sleep, in reality, as it would on a real
//    machine.
// 3. A child that works for a minute may do so for ever. From then on rule 2 is for all.
#include "shim/libc/children.h"

#include <algorithm>
#include <atomic>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/keep_errno.h"
#include "shim/libc/real_clock.h"

namespace ph {

namespace {

// Assumed: what a program waits for is ready earlier, on a busy machine too.
constexpr Nanoseconds kPatienceNs = 60 * kNsPerSecond;
constexpr Nanoseconds kLookNs = 100'000'000;
// Between two looks at children that sleep.
constexpr Nanoseconds kPauseNs = 5'000'000;

std::atomic<bool> has_patience{true};

bool has_children() noexcept {
  siginfo_t unused;
  return waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

}  // namespace

void let_children_work(Nanoseconds asked_ns) noexcept {
  const KeepErrno keep;
  if (asked_ns <= 0 || !is_owner() || !has_children()) return;
  const Nanoseconds start_ns = real_clock_ns();
  begin_giving_way();
  for (;;) {
    const Children children = await_children(kLookNs);
    const Nanoseconds left_ns = asked_ns - (real_clock_ns() - start_ns);
    if (children == Children::Still) break;
    if (children == Children::Sleep || !has_patience.load()) {
      if (left_ns <= 0) break;
      const timespec pause{0, std::min(left_ns, kPauseNs)};
      syscall(SYS_nanosleep, &pause, nullptr);
    } else if (asked_ns - left_ns > kPatienceNs) {
      has_patience.store(false);
    }
  }
  end_giving_way();
}

}  // namespace ph
