// Messages to other ranks and from them: sockets and named pipes. See outside.cc.
#undef _FORTIFY_SOURCE  // its inline definitions of these names would clash with ours
#include <cstddef>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/keep_errno.h"
#include "shim/libc/outside.h"
#include "shim/libc/real_clock.h"

namespace {

std::size_t total_bytes(const iovec* parts, std::size_t count) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; parts != nullptr && i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

// The kernel keeps a small message back while the one before is not acknowledged, up to 40 ms, in which all seems
// still. Source: Nagle's algorithm, tcp(7). Fails for what is no TCP socket.
void send_at_once(int descriptor) noexcept {
  const ph::KeepErrno keep;
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

constexpr std::size_t kMostLookBytes = 4096;  // a question to a store is short (assumed)

// Whether a loop of the framework's own sends these bytes to its own rank in every turn. `data`: null if they are in
// several pieces.
bool is_look(ph::Recipient to, const void* data, std::size_t bytes) noexcept {
  return data != nullptr && bytes <= kMostLookBytes && ph::is_self(to) && ph::is_look(ph::hash_of(data, bytes));
}

template <typename Send>
ssize_t send_out(int descriptor, const void* data, std::size_t bytes, Send send) {
  if (!ph::attached()) return send();
  const bool leads_out = ph::leads_out(descriptor);
  if (leads_out) send_at_once(descriptor);
  const ph::Recipient to = leads_out ? ph::recipient_at(descriptor) : ph::kNobody;
  ph::Act act(is_look(to, data, bytes) ? ph::kNobody : to);
  const ssize_t sent = send();
  if (sent >= 0 && static_cast<std::size_t>(sent) == bytes) act.succeeded();
  return sent;
}

template <typename Take>
ssize_t take_in(int descriptor, Take take) {
  const ssize_t taken = take();
  ph::note_read(descriptor, taken);
  return taken;
}

}  // namespace

extern "C" {

PH_EXPORT ssize_t send(int socket, const void* data, std::size_t size, int flags) {
  static constinit ph::Next<ssize_t(int, const void*, std::size_t, int)> next{"send"};
  return send_out(socket, data, size, [&] { return next(socket, data, size, flags); });
}

PH_EXPORT ssize_t sendto(int socket, const void* data, std::size_t size, int flags, const sockaddr* to,
                         socklen_t to_size) {
  static constinit ph::Next<ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t)> next{"sendto"};
  return send_out(socket, data, size, [&] { return next(socket, data, size, flags, to, to_size); });
}

PH_EXPORT ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static constinit ph::Next<ssize_t(int, const msghdr*, int)> next{"sendmsg"};
  const std::size_t size = message == nullptr ? 0 : total_bytes(message->msg_iov, message->msg_iovlen);
  return send_out(socket, nullptr, size, [&] { return next(socket, message, flags); });
}

PH_EXPORT ssize_t write(int descriptor, const void* data, std::size_t size) {
  static constinit ph::Next<ssize_t(int, const void*, std::size_t)> next{"write"};
  return send_out(descriptor, data, size, [&] { return next(descriptor, data, size); });
}

PH_EXPORT ssize_t writev(int descriptor, const iovec* parts, int count) {
  static constinit ph::Next<ssize_t(int, const iovec*, int)> next{"writev"};
  const std::size_t size = count < 0 ? 0 : total_bytes(parts, static_cast<std::size_t>(count));
  return send_out(descriptor, nullptr, size, [&] { return next(descriptor, parts, count); });
}

PH_EXPORT ssize_t recv(int socket, void* data, std::size_t size, int flags) {
  static constinit ph::Next<ssize_t(int, void*, std::size_t, int)> next{"recv"};
  return take_in(socket, [&] { return next(socket, data, size, flags); });
}

PH_EXPORT ssize_t recvfrom(int socket, void* __restrict data, std::size_t size, int flags, sockaddr* __restrict from,
                           socklen_t* __restrict from_size) {
  static constinit ph::Next<ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*)> next{"recvfrom"};
  return take_in(socket, [&] { return next(socket, data, size, flags, from, from_size); });
}

PH_EXPORT ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static constinit ph::Next<ssize_t(int, msghdr*, int)> next{"recvmsg"};
  return take_in(socket, [&] { return next(socket, message, flags); });
}

PH_EXPORT ssize_t read(int descriptor, void* data, std::size_t size) {
  static constinit ph::Next<ssize_t(int, void*, std::size_t)> next{"read"};
  return take_in(descriptor, [&] { return next(descriptor, data, size); });
}

PH_EXPORT ssize_t readv(int descriptor, const iovec* parts, int count) {
  static constinit ph::Next<ssize_t(int, const iovec*, int)> next{"readv"};
  return take_in(descriptor, [&] { return next(descriptor, parts, count); });
}

// What they compile to with _FORTIFY_SOURCE; the size of the buffer is the caller's claim and checked by libc.
PH_EXPORT ssize_t __read_chk(int descriptor, void* data, std::size_t size, std::size_t buffer) {
  static constinit ph::Next<ssize_t(int, void*, std::size_t, std::size_t)> next{"__read_chk"};
  return take_in(descriptor, [&] { return next(descriptor, data, size, buffer); });
}

PH_EXPORT ssize_t __recv_chk(int socket, void* data, std::size_t size, std::size_t buffer, int flags) {
  static constinit ph::Next<ssize_t(int, void*, std::size_t, std::size_t, int)> next{"__recv_chk"};
  return take_in(socket, [&] { return next(socket, data, size, buffer, flags); });
}

PH_EXPORT ssize_t __recvfrom_chk(int socket, void* __restrict data, std::size_t size, std::size_t buffer, int flags,
                                 sockaddr* __restrict from, socklen_t* __restrict from_size) {
  static constinit ph::Next<ssize_t(int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*)> next{
      "__recvfrom_chk"};
  return take_in(socket, [&] { return next(socket, data, size, buffer, flags, from, from_size); });
}

}  // extern "C"
