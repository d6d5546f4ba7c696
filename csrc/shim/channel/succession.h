// A rank's processes, one after the other.
#pragma once

#include <cstdint>

#include "protocol/channel.h"
#include "shim/core/api.h"

namespace ph {

// 1, 2, 3 ... in each rank: a process goes on where the one before it has ended.
PH_EXPORT std::uint64_t next_number(Numbering of) noexcept;

// Whether another process may become this one's rank after it.
PH_EXPORT bool may_be_followed() noexcept;
// This process has ended well and is a rank no more. Instead of an exit record: the rank has not ended.
PH_EXPORT void leave_to_another() noexcept;

// Whether a process that attaches follows another; if it does, it begins at the simulation's time.
bool follows(const Channel& channel) noexcept;
void succeed() noexcept;

}  // namespace ph
