// A stranger is whoever has an address that no rank has noted. Nobody sees whether he works, so that he gets the time
// that the rank's program gives him, in reality: a sleep or a time-out takes as long as it says while the rank has a
// connection to one (docs/decisions/outside-waits.md). Ranks on a network of their own reach strangers by local sockets
// alone; what else answers there is a rank or a child of one.
#include "shim/libc/strangers.h"

#include <array>
#include <atomic>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/keep_errno.h"
#include "shim/libc/outside.h"
#include "shim/libc/recipients.h"

namespace ph {

namespace {

// Assumed: no program has more at once. What is beyond is not waited for.
constexpr std::size_t kMostConnections = 64;
constexpr int kNone = -1;

class Connections {
 public:
  Connections() noexcept {
    for (auto& one : descriptors_) one.store(kNone, std::memory_order_relaxed);
  }
  void add(int descriptor) noexcept {
    for (auto& one : descriptors_) {
      int none = kNone;
      if (one.load() == descriptor || one.compare_exchange_strong(none, descriptor)) break;
    }
    any_.store(true);
  }
  void remove(int descriptor) noexcept {
    if (!any_.load(std::memory_order_relaxed)) return;
    for (auto& one : descriptors_) {
      int expected = descriptor;
      one.compare_exchange_strong(expected, kNone);
    }
  }
  template <typename IsOpen>
  bool has(IsOpen is_open) const noexcept {
    if (!any_.load(std::memory_order_relaxed)) return false;
    for (const auto& one : descriptors_) {
      const int descriptor = one.load();
      if (descriptor != kNone && is_open(descriptor)) return true;
    }
    return false;
  }

 private:
  std::array<std::atomic<int>, kMostConnections> descriptors_;
  std::atomic<bool> any_{false};
};

Connections& connections() noexcept {
  static Connections made;
  return made;
}

// Neither refused nor ended by the other side.
bool is_open(int descriptor) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
    return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_SYN_SENT;
  return is_connected_outside(descriptor);
}

}  // namespace

void note_connection(int socket, const sockaddr* address, socklen_t size) noexcept {
  const KeepErrno keep;
  if (!is_owner() || address == nullptr || size < sizeof(sa_family_t)) return;
  if (address->sa_family != AF_UNIX && !config().has("network.shared")) return;
  int type = 0;
  socklen_t type_size = sizeof type;
  if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_STREAM) return;
  if (is_of_nobody(address, size)) connections().add(socket);
}

void forget_connection(int descriptor) noexcept { connections().remove(descriptor); }

bool talks_to_strangers() noexcept {
  const KeepErrno keep;
  return is_owner() && connections().has(is_open);
}

}  // namespace ph
