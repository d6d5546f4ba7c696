// How large the parameters of a compiled kernel are: what its fat binary tells.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ph::cudart {

// In order. `wrapper`: what __cudaRegisterFatBinary got; `name`: mangled. Nothing where no code object tells: there is
// PTX alone, or the library is missing that unpacks it.
std::optional<std::vector<std::uint16_t>> find_parameters(const void* wrapper, const char* name);

}  // namespace ph::cudart
