// How far a pointer into device memory reaches: to both ends of the block that it points into.
//
// A kernel writes only into the blocks whose addresses it gets, wherever in them these point. A block is what the program's
// allocator gave out, where it tells; else the driver's allocation, or what lies free between two blocks of one. PyTorch's
// caching allocator tells of every block that it gives out and takes back (c10::reportMemoryUsageToProfiler).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/core/api.h"
#include "shim/core/device.h"

namespace ph {

struct Extent {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  bool empty() const noexcept { return begin == end; }
  bool holds(std::uintptr_t address) const noexcept { return begin <= address && address < end; }
  const void* pointer() const noexcept { return reinterpret_cast<const void*>(begin); }
  std::size_t bytes() const noexcept { return end - begin; }
};

// The block; empty where there is no device memory.
PH_EXPORT Extent extent_of(const void* pointer) noexcept;
// The driver's allocation, with those that the program itself has mapped side by side with it.
PH_EXPORT Extent region_of(const void* pointer) noexcept;

// An allocator gives out a block, or takes one back (`bytes` below zero): then nothing in it is known any more.
PH_EXPORT void note_block(const void* pointer, std::int64_t bytes) noexcept;

// Calls visit(word) for each aligned word, as compilers lay pointers. What is looked at may be more than one object.
template <class Visit>
__attribute__((no_sanitize("address"))) void each_word(const char* from, std::size_t bytes, Visit&& visit) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const auto* word = reinterpret_cast<const char* const volatile*>((address + 7) & ~std::uintptr_t{7});
  const auto* end = reinterpret_cast<const char* const volatile*>((address + bytes) & ~std::uintptr_t{7});
  for (; word < end; ++word) visit(static_cast<const void*>(*word));
}

// Calls visit(pointer) for each of them that is an address of device memory.
template <class Visit>
void each_device_pointer(const char* from, std::size_t bytes, Visit&& visit) {
  each_word(from, bytes, [&visit](const void* word) {
    if (is_device_pointer(word)) visit(word);
  });
}

// A variable of the program on a device, which any of its kernels may write (unless it is constant) and follow.
PH_EXPORT void note_variable(const void* pointer, bool is_constant) noexcept;
void add_variables(std::vector<const void*>& written, std::vector<const void*>& read) noexcept;

}  // namespace ph
