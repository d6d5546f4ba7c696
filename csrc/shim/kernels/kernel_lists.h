// Lists of tensors that a launch of multi_tensor_apply gets by value.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/kernels/kernel_structures.h"

namespace ph {

// The reader of such a list, parameter `index` of type `type`. `large`: as the build of PyTorch has them.
SizeReader plan_tensor_list(std::string_view type, std::uint16_t index, bool large);

// Writes the elements that the launch's blocks work on, and those of lists that are different.
void read_tensor_list(const SizeReader& reader, const LaunchShape& shape, const void* list, std::int64_t* out);

}  // namespace ph
