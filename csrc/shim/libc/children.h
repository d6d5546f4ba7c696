// The processes that a rank has started do what they have to do before a sleep or a time-out of the rank is over.
// See children.cc.
#pragma once

#include "protocol/nanoseconds.h"

namespace ph {

// Returns when they have, in no virtual time. `asked_ns`: how long the program wants to wait; `since_ns`: from when on, by
// the real clock.
void let_children_work(Nanoseconds asked_ns, Nanoseconds since_ns) noexcept;

}  // namespace ph
