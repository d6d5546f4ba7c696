// Addresses of device memory anywhere among bytes, as packed structures have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shim/core/device.h"

namespace ph {

// Calls visit(pointer) for each of them. An address has two bytes of zeros at its end and few values before these, which
// tells of sixteen places at once that there is none (the machine's order).
template <class Visit>
void each_packed_pointer(const char* from, std::size_t bytes, Visit&& visit) {
  using Bytes __attribute__((vector_size(16))) = unsigned char;
  using Words __attribute__((vector_size(16))) = std::uint64_t;
  const DeviceAddresses in_use = device_addresses();
  const auto least = static_cast<unsigned char>(in_use.begin >> 40);
  const auto most = static_cast<unsigned char>((in_use.end - 1) >> 40);
  const void* last = nullptr;  // patterns have the same word again and again
  const auto look_at = [&](const char* place) {
    const void* pointer;
    std::memcpy(&pointer, place, sizeof pointer);
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address < in_use.begin || address >= in_use.end || pointer == last) return;
    last = pointer;
    visit(pointer);
  };
  std::size_t at = 0;
  for (; at + sizeof(Bytes) + sizeof(void*) - 1 <= bytes; at += sizeof(Bytes)) {
    Bytes sixth, seventh, eighth;
    std::memcpy(&sixth, from + at + 5, sizeof sixth);
    std::memcpy(&seventh, from + at + 6, sizeof seventh);
    std::memcpy(&eighth, from + at + 7, sizeof eighth);
    const Bytes found = (Bytes)((seventh | eighth) == 0) & (Bytes)(sixth >= least) & (Bytes)(sixth <= most);
    const auto halves = (Words)found;
    if ((halves[0] | halves[1]) == 0) continue;
    for (std::size_t i = 0; i < sizeof(Bytes); ++i) {
      if (found[i] != 0) look_at(from + at + i);
    }
  }
  for (; at + sizeof(void*) <= bytes; ++at) look_at(from + at);
}

}  // namespace ph
