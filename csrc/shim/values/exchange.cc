#include "shim/values/exchange.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/failure.h"

namespace ph {

namespace {

constexpr std::size_t kFragmentBytes = 64u << 10;
constexpr int kSendBufferBytes = 4 << 20;  // asked for; the kernel caps it at net.core.wmem_max
constexpr Nanoseconds kRetryNs = 200'000;  // a full socket says nothing when it has room again

struct Header {
  MessageKey key;
  Nanoseconds sent_ns;
  std::uint64_t total_bytes;
  std::uint64_t offset;
};

struct Assembly {
  Message message;
  std::size_t received = 0;
};

struct Exchange {
  int socket = -1;
  int wake = -1;
  int directory = -1;
  std::map<MessageKey, Assembly> stash;  // the value thread's own
  std::mutex mutex;
  std::set<std::uint64_t> abandoned;
};

Exchange& exchange = *new Exchange;

[[noreturn]] void fail(const char* what) noexcept {
  fail_internal(std::string("values: ") + what + ": " + std::strerror(errno));
}

// A socket's path holds 107 characters; below a longer directory it is reached through the open directory.
sockaddr_un address_of(std::uint32_t rank) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "/values-" + std::to_string(rank) + ".sock";
  std::string path = config().run_dir + name;
  if (path.size() >= sizeof address.sun_path) path = "/proc/self/fd/" + std::to_string(exchange.directory) + name;
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

// The C library's poll may be intercepted and virtual; this one sleeps in real time. Null: no limit.
void poll_real(const timespec* limit) noexcept {
  pollfd ready[] = {{exchange.socket, POLLIN, 0}, {exchange.wake, POLLIN, 0}};
  timespec left = limit ? *limit : timespec{};
  syscall(SYS_ppoll, ready, 2, limit ? &left : nullptr, nullptr, 8);
  std::uint64_t wakes = 0;
  if (ready[1].revents != 0 && read(exchange.wake, &wakes, sizeof wakes) < 0 && errno != EAGAIN) fail("read");
}

void stash_datagram(const unsigned char* datagram, std::size_t size) {
  Header header;
  if (size < sizeof header) fail_internal("values: a datagram is too short");
  std::memcpy(&header, datagram, sizeof header);
  const std::size_t part = size - sizeof header;
  Assembly& assembly = exchange.stash[header.key];
  assembly.message.sent_ns = header.sent_ns;
  assembly.message.bytes.resize(header.total_bytes);
  if (header.offset + part > header.total_bytes) fail_internal("values: a datagram is beyond its message");
  std::memcpy(assembly.message.bytes.data() + header.offset, datagram + sizeof header, part);
  assembly.received += part;
}

void take_datagrams() noexcept {
  static auto& buffer = *new Bytes(sizeof(Header) + kFragmentBytes);
  for (;;) {
    const ssize_t size = recv(exchange.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size >= 0) {
      stash_datagram(buffer.data(), static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      fail("recv");
    }
  }
}

bool is_abandoned(std::uint64_t communicator) noexcept {
  const std::lock_guard lock(exchange.mutex);
  return exchange.abandoned.contains(communicator);
}

void send_datagram(std::uint32_t rank, Header header, std::span<const unsigned char> part) noexcept {
  sockaddr_un address = address_of(rank);
  iovec parts[] = {{&header, sizeof header}, {const_cast<unsigned char*>(part.data()), part.size()}};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof address;
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (sendmsg(exchange.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == ECONNREFUSED || is_abandoned(header.key.communicator)) return;
    // ENOENT: the peer has not bound its socket yet.
    if (errno != EAGAIN && errno != ENOBUFS && errno != ENOENT) fail("sendmsg");
    take_datagrams();
    const timespec pause{0, kRetryNs};
    poll_real(&pause);
  }
}

}  // namespace

void open_exchange() noexcept {
  exchange.directory = open(config().run_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  exchange.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  exchange.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (exchange.directory < 0 || exchange.wake < 0 || exchange.socket < 0) fail("open");
  setsockopt(exchange.socket, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  const sockaddr_un address = address_of(global_rank());
  unlink(address.sun_path);
  if (bind(exchange.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) fail("bind");
}

void send_message(std::uint32_t rank, const MessageKey& key, const Message& message) noexcept {
  const std::span<const unsigned char> bytes = message.bytes;
  begin_call(rank + 1);  // it may be what that rank waits for
  std::size_t offset = 0;
  do {
    const auto part = bytes.subspan(offset, std::min(kFragmentBytes, bytes.size() - offset));
    send_datagram(rank, {key, message.sent_ns, bytes.size(), offset}, part);
    offset += part.size();
  } while (offset < bytes.size());
  end_call(rank + 1);
}

bool has_message(const MessageKey& key) noexcept {
  const auto entry = exchange.stash.find(key);
  const bool has_come = entry != exchange.stash.end() && entry->second.received == entry->second.message.bytes.size();
  return has_come || is_abandoned(key.communicator);
}

Message take_message(const MessageKey& key) noexcept {
  const auto entry = exchange.stash.find(key);
  if (entry == exchange.stash.end() || entry->second.received != entry->second.message.bytes.size()) return {};
  Message message = std::move(entry->second.message);
  exchange.stash.erase(entry);
  return message;
}

void await_traffic() noexcept {
  poll_real(nullptr);
  take_datagrams();
}

void wake_exchange() noexcept {
  const std::uint64_t one = 1;
  if (exchange.wake >= 0 && write(exchange.wake, &one, sizeof one) < 0 && errno != EAGAIN) fail("write");
}

void abandon_communicator(std::uint64_t communicator) noexcept {
  {
    const std::lock_guard lock(exchange.mutex);
    exchange.abandoned.insert(communicator);
  }
  wake_exchange();
}

}  // namespace ph
