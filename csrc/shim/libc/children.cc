// Rules of child processes (docs/decisions/outside-waits.md tells why):
//
// 1. What a child does takes no virtual time. A sleep of the rank, or a time-out of one of its waits, is therefore over
//    when all its children have done what they have to do, and its threads what follows from that. The agent looks
//    (phantora_py/agent/children.py), and leaves the rank where it is meanwhile.
// 2. A child that sleeps by the real clock gets the time that the rank wants to sleep, in reality, as it would on a real
//    machine. So does a stranger that the rank has a connection to (strangers.cc).
//    A driver's sleep lets also those processes of the program work, or sleep, that are no ranks (the script that has
//    started them). Other threads do not: they look after something now and then, and would tie virtual time to the real.
// 3. A child that works for a minute may do so for ever. From then on rule 2 is for all, until none works. The report tells
//    of each sleep that ended so.
#include "shim/libc/children.h"

#include <algorithm>
#include <atomic>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/keep_errno.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/strangers.h"
#include "shim/libc/virtual_clock.h"

namespace ph {

namespace {

// Assumed: what a program waits for is ready earlier, on a busy machine too.
constexpr Nanoseconds kPatienceNs = 60 * kNsPerSecond;
constexpr Nanoseconds kLookNs = 100'000'000;
// Between two looks at children that sleep, ever longer.
constexpr Nanoseconds kFirstPauseNs = 1'000'000;
constexpr Nanoseconds kLastPauseNs = 100'000'000;

std::atomic<bool> has_patience{true};

bool has_children() noexcept {
  siginfo_t unused;
  return waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

// What the rank may have to wait for before it goes on. `beside`: also processes of the program that are no ranks.
Children others_at_work(bool beside, Nanoseconds limit_ns) noexcept {
  const Children children = beside || has_children() ? await_children(limit_ns) : Children::Still;
  return children == Children::Still && talks_to_strangers() ? Children::Sleep : children;
}

}  // namespace

ChildWork let_children_work(Nanoseconds asked_ns, Nanoseconds since_ns) noexcept {
  const KeepErrno keep;
  const bool beside = config().has("processes_beside") && drives_clock();
  if (asked_ns <= 0 || !is_owner() || (!beside && !has_children() && !talks_to_strangers())) return ChildWork::None;
  const Nanoseconds start_ns = real_clock_ns();
  const auto left_ns = [&] { return asked_ns - (real_clock_ns() - since_ns); };
  Nanoseconds pause_ns = kFirstPauseNs;
  ChildWork work = ChildWork::None;
  begin_giving_way(beside);
  for (;;) {
    const bool is_patient = has_patience.load();
    const Children others =
        others_at_work(beside, is_patient ? kLookNs : std::clamp(left_ns(), kFirstPauseNs, kLookNs));
    if (others == Children::Still) {
      has_patience.store(true);
      break;
    }
    if (others == Children::Work) work = ChildWork::Done;
    if (others == Children::Work && is_patient) {
      if (real_clock_ns() - start_ns > kPatienceNs) has_patience.store(false);
      continue;
    }
    if (left_ns() <= 0) {
      if (others == Children::Work) {
        work = ChildWork::Endless;
        note_ran_out();
      }
      break;
    }
    if (others == Children::Sleep) {
      const timespec pause{0, std::clamp(left_ns(), Nanoseconds{0}, pause_ns)};
      syscall(SYS_nanosleep, &pause, nullptr);
      pause_ns = std::min(2 * pause_ns, kLastPauseNs);
    }
  }
  end_giving_way(beside);
  return work;
}

}  // namespace ph
