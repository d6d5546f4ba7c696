// Which arguments of FBGEMM's lookup kernels are the tensors whose sizes tell how much is looked up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shim/kernels/kernel_structures.h"

namespace ph {

// The readers of a kernel of this demangled name with these parameters; none if it looks nothing up.
std::vector<SizeReader> plan_lookups(std::string_view name, const std::vector<std::string>& types);

// Whether it is a kernel that reads tables and writes results.
bool is_forward_lookup(std::string_view name);

}  // namespace ph
