// How code objects for several GPUs lie in memory. The wrapper is declared in fatbinary_section.h of the CUDA toolkit; what
// it points to is not documented: a header, and then entries, as found in PyTorch's libraries, where their compute
// capabilities are the list of torch.cuda.get_arch_list().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shim/core/api.h"

namespace ph {

inline constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
inline constexpr std::uint32_t kFatbinWrapperMagic = 0x466243b1;

struct FatbinWrapper {
  std::uint32_t magic, version;
  const void* data;
};

struct FatbinHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};

struct FatbinEntry {
  static constexpr std::uint16_t kPtx = 1;
  static constexpr std::uint16_t kMachineCode = 2;
  static constexpr std::uint64_t kLz4 = 0x2000;  // a block without a frame
  static constexpr std::uint64_t kZstd = 0x8000;  // from CUDA 13 on

  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t packed_bytes, options_offset;
  std::uint16_t minor, major;
  std::uint32_t capability, name_offset, name_bytes;
  std::uint64_t flags, zero, unpacked_bytes;

  bool is_packed() const noexcept { return (flags & (kLz4 | kZstd)) != 0; }
};

// Entries with their places; none for what is no wrapper of a fat binary.
struct PlacedEntry {
  FatbinEntry entry;
  const char* data;
};
PH_EXPORT std::vector<PlacedEntry> fat_binary_entries(const void* wrapper);

// The entry's bytes as they were before they were packed, by the system's libraries. Empty: they cannot be had.
PH_EXPORT std::string unpacked(const PlacedEntry& placed);

}  // namespace ph
