// How code objects for several GPUs lie in memory. The wrapper is declared in fatbinary_section.h of the CUDA toolkit; what
// it points to is not documented: a header, and then entries.
#pragma once

#include <cstdint>

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

}  // namespace ph
