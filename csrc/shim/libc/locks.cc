// File locks between ranks: flock, and fcntl's. To take one and to free one are both acts: who takes a lock keeps
// others out, so it must be his turn. See outside.cc.
#include "shim/libc/locks.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/keep_errno.h"
#include "shim/libc/framework.h"
#include "shim/libc/outside.h"
#include "shim/libc/real_clock.h"

namespace ph {

namespace {

std::atomic<bool> any_taken{false};  // most programs lock nothing, and need not be asked at every close

// The kernel lists a descriptor's locks. Source: proc_pid_fdinfo(5).
bool lists_lock(int descriptor) noexcept {
  char text[2048];
  std::snprintf(text, sizeof text, "/proc/self/fdinfo/%d", descriptor);
  const auto file = static_cast<int>(syscall(SYS_open, text, O_RDONLY | O_CLOEXEC));
  if (file < 0) return false;
  const ssize_t size = syscall(SYS_read, file, text, sizeof text - 1);
  syscall(SYS_close, file);
  if (size <= 0) return false;
  text[size] = '\0';
  return std::strstr(text, "\nlock:") != nullptr;
}

// The framework's FileStore looks into its file under a shared lock, again and again. A look after a poll sleep is a turn of
// that loop, from the lock to its release.
thread_local bool looks = false;
constexpr std::uint64_t kSharedLock = 1;  // of whatever file: a driver has one loop at a time

bool looks_again(bool shares, bool frees, const void* caller) noexcept {
  if (frees) return std::exchange(looks, false);
  looks = shares && is_frameworks_own(caller) && ph::is_look(kSharedLock);
  end_turn();
  return looks;
}

template <typename Lock>
int lock_out(Recipient noticed_by, Lock lock) {
  Act act(noticed_by);
  const int result = act.in_kernel(lock);
  if (result == 0) {
    act.succeeded();
    any_taken.store(true, std::memory_order_relaxed);
  }
  return result;
}

template <typename Lock>
int lock_out(bool shares, bool frees, const void* caller, Lock lock) {
  if (!attached()) return lock();
  return lock_out(looks_again(shares, frees, caller) ? kNobody : kEveryone, lock);
}

// Of several that wait for a lock, luck decides whom the kernel wakes first. So who has waited and got it gives it back
// before anybody can tell, and asks for it in his turn. flock frees a lock before it changes its kind anyway: flock(2).
template <typename Flock>
int lock_in_turn(Flock flock, int operation) {
  for (;;) {
    const int result = lock_out(kEveryone, [&] { return flock(operation | LOCK_NB); });
    if (result == 0 || errno != EWOULDBLOCK) return result;
    begin_blocking();
    const bool waited = flock(operation) == 0;
    begin_call(kEveryone);
    end_blocking();
    if (waited) flock(LOCK_UN);
    end_call(kEveryone);
    if (!waited) return -1;  // a signal
  }
}

bool changes_lock(int command) noexcept {
  return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

template <typename Next>
int control(Next& next, int descriptor, int command, void* argument, const void* caller) {
  if (!changes_lock(command) || argument == nullptr) return next(descriptor, command, argument);
  const short type = static_cast<const struct flock*>(argument)->l_type;
  return lock_out(type == F_RDLCK, type == F_UNLCK, caller, [&] { return next(descriptor, command, argument); });
}

}  // namespace

bool holds_lock(int descriptor) noexcept {
  if (!any_taken.load(std::memory_order_relaxed)) return false;
  const KeepErrno keep;
  return lists_lock(descriptor);
}

}  // namespace ph

extern "C" {

PH_EXPORT int flock(int descriptor, int operation) noexcept {
  static constinit ph::Next<int(int, int)> next{"flock"};
  const auto lock = [&](int how) { return next(descriptor, how); };
  if (!ph::attached()) return lock(operation);
  const int kind = operation & ~LOCK_NB;
  const bool looks = ph::looks_again(kind == LOCK_SH, kind == LOCK_UN, __builtin_return_address(0));
  if (!looks && kind != LOCK_UN && kind == operation) return ph::lock_in_turn(lock, operation);
  return ph::lock_out(looks ? ph::kNobody : ph::kEveryone, [&] { return lock(operation); });
}

// The third argument, where there is one, is a number or an address; both are passed in one register.
PH_EXPORT int fcntl(int descriptor, int command, ...) {
  static constinit ph::Next<int(int, int, void*)> next{"fcntl"};
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return ph::control(next, descriptor, command, argument, __builtin_return_address(0));
}

PH_EXPORT int fcntl64(int descriptor, int command, ...) {
  static constinit ph::Next<int(int, int, void*)> next{"fcntl64"};
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return ph::control(next, descriptor, command, argument, __builtin_return_address(0));
}

PH_EXPORT int lockf64(int descriptor, int command, off64_t size) {
  static constinit ph::Next<int(int, int, off64_t)> next{"lockf64"};
  if (command == F_TEST) return next(descriptor, command, size);
  return ph::lock_out(false, command == F_ULOCK, __builtin_return_address(0),
                      [&] { return next(descriptor, command, size); });
}

PH_EXPORT int lockf(int descriptor, int command, off_t size) {
  static constinit ph::Next<int(int, int, off_t)> next{"lockf"};
  if (command == F_TEST) return next(descriptor, command, size);
  return ph::lock_out(false, command == F_ULOCK, __builtin_return_address(0),
                      [&] { return next(descriptor, command, size); });
}

}  // extern "C"
