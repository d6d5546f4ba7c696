// The queue of value operations: they run one at a time, in the order in which the program issued them, except that
// one which waits for peers lets those pass that touch none of its memory. Streams do so on hardware: two collectives
// on two streams, issued in opposite order by two ranks, both end.
//
// Values have times: that of the latest operation, on whatever rank, that they come from. Whether a value has come when a
// thread asks for it is luck; its time is not. A rank that was set aside while it waited for values comes back then.
//
// An operation that needs no peer runs at once, on the thread that issues it, when nothing is queued before it.
// One that waits for a peer runs on the value thread, which starts with the first communicator; everything
// issued meanwhile queues up behind it.
#pragma once

#include <cstdint>
#include <functional>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"
#include "shim/values/known_ranges.h"
#include "shim/values/values.h"

namespace ph {

enum class Needs : std::uint8_t { Nothing, Peers };

// `operation` returns false while it still waits for peers, and is then called again after something has come. It
// must not enqueue or await another.
void enqueue_value_operation(std::function<bool()> operation, Needs needs, Touches touches) noexcept;

// Until no operation issued so far is left that writes host memory; that touches these bytes.
void await_host_writes() noexcept;
void await_values_of(const void* pointer, std::size_t bytes) noexcept;
// Whether one that is not done yet writes some of these bytes.
bool writes_are_queued(const void* pointer, std::size_t bytes) noexcept;
// Until none is left at all, or none has got done for `patience_ns` of real time.
void await_all_values(Nanoseconds patience_ns) noexcept;

// Binds the rank's socket and starts the value thread, once. A process forked later has no such thread, and
// needs none: it is not attached.
PH_EXPORT void start_value_thread() noexcept;

// When the values of the operation that runs are there, in virtual time: not before it was issued, nor before what it is
// made of. An operation that takes messages has it later. For operations only.
Nanoseconds& value_time_ns() noexcept;
// What is known at the point that the queue has reached. For operations only.
KnownRanges& known_now() noexcept;

}  // namespace ph
