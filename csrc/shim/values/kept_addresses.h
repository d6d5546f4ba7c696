// Addresses that a kernel may find in a variable of the device, or in memory of unknown content: an earlier kernel may have
// kept them there, or the program has made them numbers.
//
// A block whose address is kept may be written by every later kernel that is none of PyTorch's. Nothing of it is known
// after its launch; what becomes known in it afterwards is known until the next. PyTorch's own kernels keep no addresses.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/values/extents.h"

namespace ph {

// Nothing is known in these blocks.
void keep_addresses(const std::vector<Extent>& blocks) noexcept;
// The blocks of addresses among numbers that the program writes to the device; what is known in them counts as since.
PH_EXPORT void keep_numbers(const void* numbers, std::size_t bytes) noexcept;
// The memory is the allocator's again.
void drop_addresses(const void* pointer, std::size_t bytes) noexcept;
// Memory becomes known.
void note_known(const void* pointer, std::size_t bytes) noexcept;
// What has become known where an address was kept, since this was asked last.
std::vector<Extent> take_known_of_kept() noexcept;

}  // namespace ph
