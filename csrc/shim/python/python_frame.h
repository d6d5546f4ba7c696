// Which line of the user's Python program made the call that is being recorded.
#pragma once

#include <cstdint>

#include "shim/channel/hooks.h"  // current_site
#include "shim/core/api.h"

namespace ph {

// Id of the calling thread's innermost Python frame if that is in the user's code; otherwise 0.
PH_EXPORT std::uint32_t users_own_site() noexcept;

// Whether the calling thread is one that PyTorch's autograd has started.
bool on_autograd_thread() noexcept;

}  // namespace ph
