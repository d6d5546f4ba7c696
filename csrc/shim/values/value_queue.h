// The queue of value operations: they run one at a time, in the order in which the program issued them.
//
// An operation that needs no peer runs at once, on the thread that issues it, when nothing is queued before it.
// One that waits for a peer runs on the value thread, which starts with the first communicator; everything
// issued meanwhile queues up behind it.
#pragma once

#include <cstdint>
#include <functional>

#include "shim/core/api.h"
#include "shim/values/known_ranges.h"

namespace ph {

enum class Needs : std::uint8_t { Nothing, Peers };

// The ticket is for `await_value_operation`. An operation must not enqueue or await another.
std::uint64_t enqueue_value_operation(std::function<void()> operation, Needs needs) noexcept;
void await_value_operation(std::uint64_t ticket) noexcept;
std::uint64_t last_value_ticket() noexcept;

// Binds the rank's socket and starts the value thread, once. A process forked later has no such thread, and
// needs none: it is not attached.
PH_EXPORT void start_value_thread() noexcept;

// What is known at the point that the queue has reached. For operations only.
KnownRanges& known_now() noexcept;

}  // namespace ph
