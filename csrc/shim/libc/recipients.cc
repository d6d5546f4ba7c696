// Internet addresses are noted in the switchboard by the rank that has them: as they are, and with the network
// namespace where they mean something in that alone (the loopback interface; any interface). Everything else concerns
// everyone.
#include "shim/libc/recipients.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include "shim/core/keep_errno.h"
#include "shim/core/rank.h"

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
std::uint64_t hash_of(const Endpoint& endpoint) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](const void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      hash ^= static_cast<const unsigned char*>(data)[i];
      hash *= 0x100000001b3;
    }
  };
  const bool is_any = endpoint.is_any();
  if (is_any || endpoint.is_loopback()) {
    const std::uint64_t of_namespace = network_namespace();
    add(&of_namespace, sizeof of_namespace);
  }
  if (!is_any) add(endpoint.host.data(), endpoint.host.size());
  add(&endpoint.port, sizeof endpoint.port);
  return std::max<std::uint64_t>(hash, 1);
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

// A port that two ranks have had is anybody's.
void note(const Endpoint& endpoint) noexcept {
  AddressEntry* entry = find(hash_of(endpoint), true);
  if (entry == nullptr) return;
  const Recipient self = global_rank() + 1;
  Recipient owner = kNobody;
  if (!entry->owner.compare_exchange_strong(owner, self) && owner != self) entry->owner.store(kEveryone);
}

Recipient owner_of(const Endpoint& endpoint) noexcept {
  const AddressEntry* entry = find(hash_of(endpoint), false);
  const Recipient owner = entry == nullptr ? kNobody : entry->owner.load();
  return owner == kNobody ? kEveryone : owner;
}

}  // namespace

void note_own_address(int socket) noexcept {
  if (!is_owner()) return;
  const KeepErrno keep;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return;
  if (const auto address = endpoint(reinterpret_cast<const sockaddr*>(&own), size)) note(*address);
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
  const auto peer = endpoint(address, size);
  if (!peer) return kEveryone;
  const Recipient owner = owner_of(*peer);
  if (owner != kEveryone || !peer->is_loopback()) return owner;
  // Somebody may listen at every interface; if two do, at one port of each family, they are the same rank or unknown.
  return owner_of({.host = {}, .port = peer->port});
}

}  // namespace ph
