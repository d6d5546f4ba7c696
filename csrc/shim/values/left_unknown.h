// Managed memory that launches may have written, which the host may look at without a call.
//
// Its pages are given back to the kernel: they read as zeros, as all that is unknown does, and are there again once the host
// has touched them. That is looked at when the memory is freed or written by something that is known, and at the end.
// What is found counts as read, at the line of the launch.
#pragma once

#include <cstddef>

namespace ph {

// By what the calling thread issues now.
void leave_unknown(const void* pointer, std::size_t bytes) noexcept;
// How much of it comes before anything that is left so: looking at that would touch it.
std::size_t known_before(const void* pointer, std::size_t bytes) noexcept;
// What is issued now writes known values there, or the memory is about to be freed.
void end_unknown(const void* pointer, std::size_t bytes) noexcept;
// The rank ends.
void tell_unknown() noexcept;

}  // namespace ph
