// Which line of the user's Python program made the call that is being recorded.
#pragma once

#include <cstdint>

#include "shim/core/api.h"

namespace ph {

// Id of the calling thread's innermost Python frame that is in the user's code, neither in an installed package
// nor in the standard library (the innermost frame if there is none such), announced by a Site record on first
// sight. 0: not attached, no Python frame, or an interpreter whose frames cannot be read.
PH_EXPORT std::uint32_t current_site() noexcept;

// Id of the calling thread's innermost Python frame if that is in the user's code; otherwise 0.
PH_EXPORT std::uint32_t users_own_site() noexcept;

}  // namespace ph
