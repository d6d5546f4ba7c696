// Of which ranks the group consists that the program makes at the moment, in a folded run (phantora_py/rank/groups.py).
#pragma once

#include <string>

#include "shim/core/api.h"

namespace ph {

// Numbers of ranks with commas between; empty: none is being made.
PH_EXPORT void set_group_being_made(const char* ranks) noexcept;
PH_EXPORT std::string group_being_made();

}  // namespace ph
