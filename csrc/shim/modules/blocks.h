// What PyTorch's allocators have handed out, for which module and in which phase, and what of it was in use at the peak.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"

namespace ph::modules {

// As phantora_py/rank/modules.py reads it.
struct Block {
  std::uint64_t address;
  std::uint64_t bytes;
  Nanoseconds begin_ns;  // when it was taken, by the host clock
  std::uint64_t number;  // of all that were taken
  std::uint32_t scope;  // it was taken for that, see channel/hooks.h
  std::uint32_t end_scope;  // it was given back in that; kInUse: it has not been
  std::uint32_t kind;  // as Python has marked it; 0: it has not
  std::uint32_t module;  // likewise
};
static_assert(sizeof(Block) == 48);
inline constexpr std::uint32_t kInUse = ~std::uint32_t{0};

// Memory of a device is taken, or given back: `bytes` is negative.
PH_EXPORT void note_tensor_memory(const void* pointer, std::int64_t bytes, int device) noexcept;

}  // namespace ph::modules
