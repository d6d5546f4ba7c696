// The processes that a rank has started do what they have to do before a sleep or a time-out of the rank is over.
// See children.cc.
#pragma once

#include "protocol/nanoseconds.h"

namespace ph {

// None: they had nothing to do. Endless: they still work, and are waited for no longer.
enum class ChildWork { None, Done, Endless };

// Returns when they have, in no virtual time. `asked_ns`: how long the program wants to wait; `since_ns`: from when on, by
// the real clock.
ChildWork let_children_work(Nanoseconds asked_ns, Nanoseconds since_ns) noexcept;

}  // namespace ph
