// Addresses that a kernel may have kept for a later one, in a variable of the device or in memory of unknown content.
//
// A block whose address such a kernel was given may be written by every later one of them. Nothing of it is known after
// its launch; what becomes known in it afterwards is known until the next. PyTorch's own kernels keep no addresses.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/values/extents.h"

namespace ph {

void keep_addresses(const std::vector<Extent>& blocks) noexcept;
// The memory is the allocator's again.
void drop_addresses(const void* pointer, std::size_t bytes) noexcept;
// Memory becomes known.
void note_known(const void* pointer, std::size_t bytes) noexcept;
// What has become known where an address was kept, since this was asked last.
std::vector<Extent> take_known_of_kept() noexcept;

}  // namespace ph
