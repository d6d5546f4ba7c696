// The handlers of the signals that are ours. Python takes the default for what it had not installed itself, so that a
// program that puts all handlers back (PyTorch Lightning does when training ends) would have the next alarm kill its
// rank.
#include <csignal>

#include "shim/core/api.h"
#include "shim/libc/alarms.h"
#include "shim/libc/real_clock.h"

namespace {

// The second is Python's: phantora_py/rank/runtime.py.
bool is_ours(int number) noexcept { return number == ph::alarm_signal() || number == SIGRTMAX - 3; }

}  // namespace

// A default for ours is heard and not obeyed.
extern "C" PH_EXPORT int sigaction(int number, const struct sigaction* action, struct sigaction* before) noexcept {
  static constinit ph::Next<int(int, const struct sigaction*, struct sigaction*)> next{"sigaction"};
  const bool kept = action != nullptr && action->sa_handler == SIG_DFL && is_ours(number);
  return next(number, kept ? nullptr : action, before);
}
