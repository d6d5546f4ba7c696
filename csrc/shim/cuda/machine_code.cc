// Instructions are 16 bytes since Volta. The fields used here were read off `nvdisasm -hex` of Triton's kernels for
// compute capabilities 8.0, 9.0 and 10.0; the vendor documents none.
#include "shim/cuda/machine_code.h"

#include <algorithm>
#include <cstring>

namespace ph::driver {

namespace {

struct Instruction {
  std::uint64_t low, high;

  std::uint32_t opcode() const noexcept { return low & 0xfff; }
  // LDG, STG: 0 to 6 for 8 (unsigned, signed), 16 (likewise), 32, 64 and 128 bits.
  std::uint32_t access_bytes() const noexcept {
    constexpr std::uint32_t kBytes[8] = {1, 1, 2, 2, 4, 8, 16, 32};
    return kBytes[high >> 9 & 7];
  }
  // What follows the end of a kernel branches to itself, always: an offset of -16 in bytes (8.0) or in words, whose
  // lowest eight bits stand apart.
  bool branches_to_itself() const noexcept {
    constexpr std::uint64_t kFields = 0xffffffff00fff000;
    return (low & kFields) == 0xfffffff000007000 || (low & kFields) == 0xfffffffc00fc7000;
  }
  bool branches_back() const noexcept { return (high & 0x20000) != 0 && !branches_to_itself(); }
};
static_assert(sizeof(Instruction) == 16);

enum class Effect { None, Load, Store, Loop, Unknown };

Effect effect_of(const Instruction& instruction) noexcept {
  switch (instruction.opcode()) {
    case 0x381:  // LDG, with an address
    case 0x981: return Effect::Load;  // LDG, with a descriptor
    case 0x386:                       // STG
    case 0x986: return Effect::Store;
    case 0x547:  // BRA.U
    case 0x947: return instruction.branches_back() ? Effect::Loop : Effect::None;  // BRA
    case 0x98e:  // RED
    case 0x38e:
    case 0x9a8:  // ATOMG
    case 0x3a8:
    case 0x3a9:
    case 0xfae:  // LDGSTS
    case 0x9ae:
    case 0x5b4:  // UTMALDG
    case 0x9b5:  // UTMASTG
    case 0x3ba:  // UBLKCP
    case 0x944:  // CALL
    case 0x949:  // BRX
    case 0x94c: return Effect::Unknown;  // JMX
    default: return Effect::None;
  }
}

}  // namespace

CodeAccesses code_accesses(std::string_view text) noexcept {
  CodeAccesses found;
  bool is_straight = true;
  for (std::size_t at = 0; at + sizeof(Instruction) <= text.size(); at += sizeof(Instruction)) {
    Instruction instruction{};
    std::memcpy(&instruction, text.data() + at, sizeof instruction);
    const Effect effect = effect_of(instruction);
    is_straight &= effect != Effect::Loop && effect != Effect::Unknown;
    if (effect != Effect::Load && effect != Effect::Store) continue;
    const std::uint32_t bytes = instruction.access_bytes();
    found.thread_bytes += bytes;
    if (effect == Effect::Load) continue;
    found.stored_bytes += bytes;
    const bool is_first = found.narrowest_store_bytes == 0;
    found.narrowest_store_bytes = is_first ? bytes : std::min(found.narrowest_store_bytes, bytes);
  }
  if (!is_straight) found.thread_bytes = 0;
  return found;
}

}  // namespace ph::driver
