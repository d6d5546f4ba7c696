// The handlers of the signals that are ours. Python takes the default for what it had not installed itself, so that a
// program that puts all handlers back (PyTorch Lightning does when training ends) would have the next alarm kill its
// rank.
#include <csignal>

#include "shim/core/api.h"
#include "shim/libc/alarms.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/time_stamp_counter.h"

// A default for it is heard and not obeyed.
extern "C" PH_EXPORT int sigaction(int number, const struct sigaction* action, struct sigaction* before) noexcept {
  static constinit ph::Next<int(int, const struct sigaction*, struct sigaction*)> next{"sigaction"};
  if (number == SIGILL && ph::keep_illegal_handler(action, before)) return 0;
  const bool kept = action != nullptr && action->sa_handler == SIG_DFL && number == ph::alarm_signal();
  return next(number, kept ? nullptr : action, before);
}

extern "C" PH_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  static constinit ph::Next<sighandler_t(int, sighandler_t)> next{"signal"};
  if (number == SIGILL) {
    struct sigaction wanted{}, before{};
    wanted.sa_handler = handler;
    if (ph::keep_illegal_handler(&wanted, &before)) return before.sa_handler;
  }
  if (handler != SIG_DFL || number != ph::alarm_signal()) return next(number, handler);
  struct sigaction now{};
  sigaction(number, nullptr, &now);
  return now.sa_handler;
}
