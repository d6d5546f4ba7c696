// Source: the kernel's Documentation/admin-guide/mm/pagemap.rst.
#include "shim/values/host_pages.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace ph {

namespace {

constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62,
                        kOfFile = std::uint64_t{1} << 61;

std::size_t page_size() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

bool is_zero(const char* bytes, std::size_t count) noexcept {
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

// Calls `action` with the part on each page and the page's entry, until that says false. Returns whether all said true;
// false where the kernel does not tell.
template <typename Action>
bool each_page(const void* pointer, std::size_t bytes, Action action) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer), end = begin + bytes;
  const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (map < 0) return false;
  bool goes_on = true;
  std::array<std::uint64_t, 4096> entries;
  for (std::uintptr_t first = begin / page_size(), last = (end - 1) / page_size(); goes_on && first <= last;) {
    const std::size_t count = std::min<std::size_t>(entries.size(), last - first + 1);
    const std::size_t size = count * sizeof entries[0];
    goes_on =
        pread(map, entries.data(), size, static_cast<off_t>(first * sizeof entries[0])) == static_cast<ssize_t>(size);
    for (std::size_t at = 0; goes_on && at < count; ++at, ++first) {
      const std::uintptr_t from = std::max(begin, first * page_size());
      goes_on = action(from, std::min(end, (first + 1) * page_size()) - from, entries[at]);
    }
  }
  close(map);
  return goes_on;
}

void clear(std::uintptr_t from, std::size_t part) noexcept {
  auto* const bytes = reinterpret_cast<char*>(from);
  if (!is_zero(bytes, part)) std::memset(bytes, 0, part);
}

}  // namespace

std::size_t present_bytes(const void* pointer, std::size_t bytes) noexcept {
  std::size_t found = 0;
  const bool is_told = each_page(pointer, bytes, [&found](std::uintptr_t, std::size_t part, std::uint64_t entry) {
    if ((entry & (kPresent | kSwapped)) != 0) found += part;
    return true;
  });
  return is_told ? found : bytes;
}

bool is_written(const void* pointer, std::size_t bytes) noexcept {
  return each_page(pointer, bytes, [](std::uintptr_t, std::size_t, std::uint64_t entry) {
    return (entry & (kPresent | kSwapped)) != 0 && (entry & kOfFile) == 0;
  });
}

void clear_written(void* pointer, std::size_t bytes) noexcept {
  const bool is_told = each_page(pointer, bytes, [](std::uintptr_t from, std::size_t part, std::uint64_t entry) {
    // A page that was only read is one of zeros that all share; writing would make it memory.
    if ((entry & (kPresent | kSwapped)) != 0) clear(from, part);
    return true;
  });
  if (!is_told) clear(reinterpret_cast<std::uintptr_t>(pointer), bytes);
}

}  // namespace ph
