// How many elements are carried out one by one.
#pragma once

#include <cstddef>

#include "shim/kernels/offset_calculator.h"

namespace ph {

// One by one on the CPU an element takes tens of nanoseconds; assumed to be enough for what programs read back.
inline constexpr std::size_t kMostElements = 8192;
// Where tokens are counted, and the lengths of a batch's features for each rank (assumed to be enough).
inline constexpr std::size_t kMostIntegers = 2u << 20;

}  // namespace ph
