// Memory of this process of which nobody says how far it goes.
#pragma once

#include <cstddef>
#include <vector>

namespace ph {

// The most that a kernel's parameters take together. Source: CUDA C++ Programming Guide, "__global__ Function
// Parameters".
inline constexpr std::size_t kMostParameterBytes = 32764;

// As many of the bytes as there are.
std::vector<unsigned char> read_own_memory(const void* pointer, std::size_t bytes) noexcept;

}  // namespace ph
