#include "shim/core/fat_binary.h"

#include <cstring>

#include <dlfcn.h>

namespace ph {

namespace {

template <class T>
T at(const void* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// A function of a library of the system, which stays loaded; null: there is none.
template <class Function>
Function find_function(const char* library, const char* name) noexcept {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
}

// Source: zstd.h and lz4.h; both have been so since their first stable release.
bool unpack_zstd(const PlacedEntry& from, std::string& to) {
  using Decompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  static const auto decompress = find_function<Decompress>("libzstd.so.1", "ZSTD_decompress");
  return decompress != nullptr && decompress(to.data(), to.size(), from.data, from.entry.packed_bytes) == to.size();
}

bool unpack_lz4(const PlacedEntry& from, std::string& to) {
  using Decompress = int (*)(const char*, char*, int, int);
  static const auto decompress = find_function<Decompress>("liblz4.so.1", "LZ4_decompress_safe");
  const auto size = static_cast<int>(to.size());
  return decompress != nullptr &&
         decompress(from.data, to.data(), static_cast<int>(from.entry.packed_bytes), size) == size;
}

}  // namespace

std::vector<PlacedEntry> fat_binary_entries(const void* wrapper) {
  std::vector<PlacedEntry> found;
  if (wrapper == nullptr) return found;
  const auto outer = at<FatbinWrapper>(wrapper);
  if (outer.magic != kFatbinWrapperMagic || outer.data == nullptr) return found;
  const auto header = at<FatbinHeader>(outer.data);
  if (header.magic != kFatbinMagic) return found;
  const char* place = static_cast<const char*>(outer.data) + header.header_bytes;
  for (const char* const end = place + header.bytes; place + sizeof(FatbinEntry) <= end;) {
    const auto entry = at<FatbinEntry>(place);
    if (entry.header_bytes < sizeof(FatbinEntry)) break;
    found.push_back({entry, place + entry.header_bytes});
    place += entry.header_bytes + entry.bytes;
  }
  return found;
}

std::string unpacked(const PlacedEntry& placed) {
  const FatbinEntry& entry = placed.entry;
  if (!entry.is_packed()) return {placed.data, entry.bytes};
  std::string bytes(entry.unpacked_bytes, '\0');
  const bool is_whole =
      (entry.flags & FatbinEntry::kZstd) != 0 ? unpack_zstd(placed, bytes) : unpack_lz4(placed, bytes);
  return is_whole ? bytes : std::string();
}

}  // namespace ph
