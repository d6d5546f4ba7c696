// A GPU runs machine code of its own major number and at most its own minor one, the latest that there is; or it compiles
// PTX of at most its own. Source: CUDA C++ Programming Guide, application compatibility. Entries of a fat binary are as
// found in PyTorch's libraries, where they give the list of torch.cuda.get_arch_list().
#include "shim/cudart/compiled_for.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shim/core/fat_binary.h"

namespace ph::cudart {

namespace {

struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t unknown[3];
  std::uint32_t capability;
};

constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kMachineCode = 2;

template <class T>
T read(const void* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace

CodeVersions compiled_for(const void* wrapper, int capability) noexcept {
  const CodeVersions unknown{capability, capability};
  if (wrapper == nullptr) return unknown;
  const auto outer = read<FatbinWrapper>(wrapper);
  if (outer.magic != kFatbinWrapperMagic || outer.data == nullptr) return unknown;
  const auto header = read<FatbinHeader>(outer.data);
  if (header.magic != kFatbinMagic) return unknown;
  int ptx = 0;
  int machine_code = 0;
  const char* at = static_cast<const char*>(outer.data) + header.header_bytes;
  for (const char* const end = at + header.bytes; at + sizeof(Entry) <= end;) {
    const auto entry = read<Entry>(at);
    const int target = static_cast<int>(entry.capability);
    const bool runs = target <= capability && target / 10 == capability / 10;
    if (entry.kind == kMachineCode && runs && target > machine_code) machine_code = target;
    if (entry.kind == kPtx && target <= capability && target > ptx) ptx = target;
    if (entry.header_bytes < sizeof(Entry)) break;
    at += entry.header_bytes + entry.bytes;
  }
  if (machine_code != 0) return {machine_code, machine_code};
  return ptx != 0 ? CodeVersions{ptx, capability} : unknown;
}

}  // namespace ph::cudart
