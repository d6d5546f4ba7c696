// Which host memory the program has written, by the pages that the process has for it.
#pragma once

#include <cstddef>

namespace ph {

// Whether the process has pages of its own for all of it, in memory or swapped out.
bool is_written(const void* pointer, std::size_t bytes) noexcept;

// How much of it lies on pages that the process has, be it that it has only read them.
std::size_t present_bytes(const void* pointer, std::size_t bytes) noexcept;

// All of it reads as zeros from now on. Memory that nobody has touched does so already, and stays untouched.
void clear_written(void* pointer, std::size_t bytes) noexcept;

}  // namespace ph
