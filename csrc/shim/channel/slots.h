// Reply slots: a thread claims one, sleeps until the server has answered there, and releases it.
#pragma once

#include <cstdint>

#include "protocol/channel.h"

namespace ph {

// Sleeps while more threads wait than there are slots.
std::uint32_t claim_slot() noexcept;
// Sleeps until the slot is answered. `moves_clock`: the rank itself waited, so its host clock moves to the answer.
const ReplySlot& sleep_on(std::uint32_t slot, bool moves_clock) noexcept;
void release_slot(std::uint32_t slot) noexcept;

}  // namespace ph
