// The calls by which a process looks whether a child of its own has ended.
#include "shim/libc/child_watch.h"

#include <utility>

#include <sys/resource.h>
#include <sys/wait.h>

#include "shim/channel/rank.h"
#include "shim/libc/real_clock.h"

namespace {
thread_local bool has_looked = false;
thread_local bool looked_before = false;  // the sleep before

// `found`: what the call returned, 0 if no child has ended.
pid_t note(int options, pid_t found) noexcept {
  has_looked = (options & WNOHANG) != 0 && found == 0;
  return found;
}
}  // namespace

namespace ph {

bool awaits_child() noexcept {
  const bool looks = std::exchange(has_looked, false);
  return std::exchange(looked_before, looks) && looks && !clock_virtual();
}

}  // namespace ph

extern "C" {

PH_EXPORT pid_t waitpid(pid_t child, int* status, int options) {
  static constinit ph::Next<pid_t(pid_t, int*, int)> next{"waitpid"};
  return note(options, next(child, status, options));
}

PH_EXPORT pid_t wait4(pid_t child, int* status, int options, rusage* use) {
  static constinit ph::Next<pid_t(pid_t, int*, int, rusage*)> next{"wait4"};
  return note(options, next(child, status, options, use));
}

PH_EXPORT int waitid(idtype_t kind, id_t id, siginfo_t* child, int options) {
  static constinit ph::Next<int(idtype_t, id_t, siginfo_t*, int)> next{"waitid"};
  if (child != nullptr) child->si_pid = 0;
  const int error = next(kind, id, child, options);
  note(options, error == 0 && child != nullptr ? child->si_pid : -1);
  return error;
}

}  // extern "C"
