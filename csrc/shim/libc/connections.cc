// Connections to other ranks: how they begin, and how they end. See outside.cc.
#include <cerrno>
#include <cstdarg>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/libc/locks.h"
#include "shim/libc/outside.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/strangers.h"

namespace {

// Who notices that this is closed.
ph::Recipient recipient_of_end(int descriptor) noexcept {
  if (ph::is_connected_outside(descriptor)) return ph::recipient_at(descriptor);
  return ph::is_named_pipe(descriptor) || ph::holds_lock(descriptor) ? ph::kEveryone : ph::kNobody;
}

bool has_mode(int flags) noexcept { return (flags & (O_CREAT | __O_TMPFILE)) != 0; }

// A named pipe's two ends wait for each other.
template <typename Open>
int open_out(int directory, const char* path, Open open) {
  if (!ph::attached()) return open();
  ph::Act act(ph::is_named_pipe(directory, path) ? ph::kEveryone : ph::kNobody);
  const int descriptor = act.in_kernel(open);
  if (descriptor >= 0) act.succeeded();
  return descriptor;
}

}  // namespace

extern "C" {

PH_EXPORT int connect(int socket, const sockaddr* address, socklen_t size) {
  static constinit ph::Next<int(int, const sockaddr*, socklen_t)> next{"connect"};
  if (!ph::attached()) return next(socket, address, size);
  const bool leads_out = ph::is_outside_socket(socket);
  const bool looks = leads_out && address != nullptr && ph::is_look(ph::hash_of(address, size));
  ph::Act act(leads_out && !looks ? ph::recipient_at(address, size) : ph::kNobody);
  const int result = next(socket, address, size);
  if (leads_out) ph::note_own_address(socket);
  if (leads_out && (result == 0 || errno == EINPROGRESS)) ph::note_connection(socket, address, size);
  if (result == 0) act.succeeded();
  return result;
}

PH_EXPORT int listen(int socket, int backlog) noexcept {
  static constinit ph::Next<int(int, int)> next{"listen"};
  const bool leads_out = ph::is_outside_socket(socket);
  if (leads_out) ph::note_own_address(socket);
  ph::Act act(leads_out ? ph::kEveryone : ph::kNobody);
  const int result = next(socket, backlog);
  if (result == 0) act.succeeded();
  return result;
}

// Whom the server lets in at a time of its own has waited for that.
PH_EXPORT int accept(int socket, sockaddr* __restrict address, socklen_t* __restrict size) {
  static constinit ph::Next<int(int, sockaddr*, socklen_t*)> next{"accept"};
  const int descriptor = next(socket, address, size);
  if (descriptor >= 0) ph::note_own_address(descriptor);
  ph::note_read(socket, descriptor);
  return descriptor;
}

PH_EXPORT int accept4(int socket, sockaddr* __restrict address, socklen_t* __restrict size, int flags) {
  static constinit ph::Next<int(int, sockaddr*, socklen_t*, int)> next{"accept4"};
  const int descriptor = next(socket, address, size, flags);
  if (descriptor >= 0) ph::note_own_address(descriptor);
  ph::note_read(socket, descriptor);
  return descriptor;
}

PH_EXPORT int shutdown(int socket, int how) noexcept {
  static constinit ph::Next<int(int, int)> next{"shutdown"};
  if (!ph::attached()) return next(socket, how);
  ph::Act act(ph::is_connected_outside(socket) ? ph::recipient_at(socket) : ph::kNobody);
  const int result = next(socket, how);
  if (result == 0) act.succeeded();
  return result;
}

PH_EXPORT int close(int descriptor) {
  static constinit ph::Next<int(int)> next{"close"};
  if (!ph::attached()) return next(descriptor);
  ph::Act act(recipient_of_end(descriptor));
  act.succeeded();
  ph::forget_connection(descriptor);
  return next(descriptor);
}

PH_EXPORT int open(const char* path, int flags, ...) {
  static constinit ph::Next<int(const char*, int, mode_t)> next{"open"};
  va_list list;
  va_start(list, flags);
  const mode_t mode = has_mode(flags) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_out(AT_FDCWD, path, [&] { return next(path, flags, mode); });
}

PH_EXPORT int open64(const char* path, int flags, ...) {
  static constinit ph::Next<int(const char*, int, mode_t)> next{"open64"};
  va_list list;
  va_start(list, flags);
  const mode_t mode = has_mode(flags) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_out(AT_FDCWD, path, [&] { return next(path, flags, mode); });
}

PH_EXPORT int openat(int directory, const char* path, int flags, ...) {
  static constinit ph::Next<int(int, const char*, int, mode_t)> next{"openat"};
  va_list list;
  va_start(list, flags);
  const mode_t mode = has_mode(flags) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_out(directory, path, [&] { return next(directory, path, flags, mode); });
}

PH_EXPORT int openat64(int directory, const char* path, int flags, ...) {
  static constinit ph::Next<int(int, const char*, int, mode_t)> next{"openat64"};
  va_list list;
  va_start(list, flags);
  const mode_t mode = has_mode(flags) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_out(directory, path, [&] { return next(directory, path, flags, mode); });
}

}  // extern "C"
