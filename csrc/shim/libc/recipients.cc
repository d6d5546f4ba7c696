// Addresses are noted in the switchboard by the rank that has them: those of the Internet as they are, and with the
// network namespace where they mean something in that alone (the loopback interface; any interface); local ones by
// their file. Everything else concerns everyone.
#include "shim/libc/recipients.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "shim/channel/rank.h"
#include "shim/core/keep_errno.h"

namespace ph {

namespace {

// IPv4 addresses as IPv6 writes them.
struct Endpoint {
  std::array<unsigned char, 16> host{};
  std::uint16_t port = 0;

  bool is_any() const noexcept {
    const auto* tail = host.data() + 12;
    return std::all_of(host.begin(), host.begin() + 10, [](unsigned char byte) { return byte == 0; }) &&
           std::all_of(tail, tail + 4, [](unsigned char byte) { return byte == 0; });
  }
  bool is_loopback() const noexcept {
    in6_addr address;
    std::memcpy(&address, host.data(), sizeof address);
    return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && host[12] == 127);
  }
};

std::optional<Endpoint> endpoint(const sockaddr* address, socklen_t size) noexcept {
  Endpoint made;
  if (address == nullptr || size < sizeof(sa_family_t)) return std::nullopt;
  if (address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    made.host[10] = made.host[11] = 0xff;
    std::memcpy(made.host.data() + 12, &v4.sin_addr, 4);
    made.port = v4.sin_port;
  } else if (address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof v6);
    std::memcpy(made.host.data(), &v6.sin6_addr, 16);
    made.port = v6.sin6_port;
  } else {
    return std::nullopt;
  }
  return made.port == 0 ? std::nullopt : std::optional(made);
}

std::uint64_t network_namespace() noexcept {
  struct stat file{};
  return stat("/proc/self/ns/net", &file) == 0 ? file.st_ino : 0;
}

// Source of the constants: FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv.
class Hash {
 public:
  Hash& add(const void* data, std::size_t size) noexcept {
    for (std::size_t i = 0; i < size; ++i) {
      value_ ^= static_cast<const unsigned char*>(data)[i];
      value_ *= 0x100000001b3;
    }
    return *this;
  }
  template <typename Number>
  Hash& add(Number number) noexcept {
    return add(&number, sizeof number);
  }
  std::uint64_t value() const noexcept { return std::max<std::uint64_t>(value_, 1); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::uint64_t hash_of(const Endpoint& endpoint) noexcept {
  Hash hash;
  const bool is_any = endpoint.is_any();
  if (is_any || endpoint.is_loopback()) hash.add(network_namespace());
  if (!is_any) hash.add(endpoint.host.data(), endpoint.host.size());
  return hash.add(endpoint.port).value();
}

// Of a local socket that has a name: of its file, which is the same for everybody, or of its abstract name.
std::optional<std::uint64_t> hash_of_local(const sockaddr* address, socklen_t size) noexcept {
  sockaddr_un local{};
  if (address == nullptr || size <= offsetof(sockaddr_un, sun_path) || address->sa_family != AF_UNIX)
    return std::nullopt;
  std::memcpy(&local, address, std::min<std::size_t>(size, sizeof local));
  if (local.sun_path[0] == '\0')
    return Hash().add(network_namespace()).add(&local, std::min<std::size_t>(size, sizeof local)).value();
  char path[sizeof local.sun_path + 1] = {};  // the name may fill its array
  std::memcpy(path, local.sun_path, sizeof local.sun_path);
  struct stat file{};
  if (stat(path, &file) != 0) return std::nullopt;
  return Hash().add(file.st_dev).add(file.st_ino).value();
}

// The entry with this hash; with `make`, a free one that becomes it. None: there is none, or no room nearby.
AddressEntry* find(std::uint64_t hash, bool make) noexcept {
  for (std::size_t i = 0; i < kAddressProbes; ++i) {
    AddressEntry& entry = switchboard().addresses[(hash + i) % kAddresses];
    std::uint64_t found = entry.hash.load(std::memory_order_acquire);
    if (found == 0 && make && entry.hash.compare_exchange_strong(found, hash)) return &entry;
    if (found == hash) return &entry;
    if (found == 0) return nullptr;
  }
  return nullptr;
}

// An address that two ranks have had is anybody's.
void note(std::uint64_t hash) noexcept {
  AddressEntry* entry = find(hash, true);
  if (entry == nullptr) return;
  const Recipient self = global_rank() + 1;
  Recipient owner = kNobody;
  if (!entry->owner.compare_exchange_strong(owner, self) && owner != self) entry->owner.store(kEveryone);
}

Recipient owner_of(std::uint64_t hash) noexcept {
  const AddressEntry* entry = find(hash, false);
  const Recipient owner = entry == nullptr ? kNobody : entry->owner.load();
  return owner == kNobody ? kEveryone : owner;
}

}  // namespace

void note_own_address(int socket) noexcept {
  if (!clock_virtual()) return;
  const KeepErrno keep;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return;
  const auto* address = reinterpret_cast<const sockaddr*>(&own);
  if (const auto local = hash_of_local(address, size)) return note(*local);
  const auto of_internet = endpoint(address, size);
  if (of_internet && is_owner()) note(hash_of(*of_internet));
}

bool is_of_nobody(const sockaddr* address, socklen_t size) noexcept {
  if (const auto local = hash_of_local(address, size)) return find(*local, false) == nullptr;
  const auto peer = endpoint(address, size);
  return peer && find(hash_of(*peer), false) == nullptr &&
         (!peer->is_loopback() || find(hash_of({.host = {}, .port = peer->port}), false) == nullptr);
}

Recipient recipient_at(int descriptor) noexcept {
  if (!is_owner()) return kNobody;
  const KeepErrno keep;
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return kEveryone;
  return recipient_at(reinterpret_cast<const sockaddr*>(&peer), size);
}

Recipient recipient_at(const sockaddr* address, socklen_t size) noexcept {
  if (!is_owner()) return kNobody;
  const KeepErrno keep;
  if (const auto local = hash_of_local(address, size)) {
    const Recipient owner = owner_of(*local);
    return owner == global_rank() + 1 ? kNobody : owner;
  }
  const auto peer = endpoint(address, size);
  if (!peer) return kEveryone;
  const Recipient owner = owner_of(hash_of(*peer));
  if (owner != kEveryone || !peer->is_loopback()) return owner;
  // Somebody may listen at every interface; if two do, at one port of each family, they are the same rank or unknown.
  return owner_of(hash_of({.host = {}, .port = peer->port}));
}

}  // namespace ph
