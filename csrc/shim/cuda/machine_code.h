// What the machine code of a kernel tells about the memory that it moves.
#pragma once

#include <cstdint>
#include <string_view>

namespace ph::driver {

// Bytes that one thread loads from and stores to global memory. 0: not known, because the code loops or takes other
// ways to memory. `text`: the instructions of one kernel, compute capability 7.0 or later.
std::uint32_t thread_bytes(std::string_view text) noexcept;

}  // namespace ph::driver
