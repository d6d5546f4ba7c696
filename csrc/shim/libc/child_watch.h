// Whether a process that is no rank looks after its children only, as launchers do in a loop with sleeps.
#pragma once

namespace ph {

// To be asked once a sleep: the calling thread has looked in vain whether a child has ended, before this sleep and before
// the one before. Never in a rank nor in its children.
bool awaits_child() noexcept;

}  // namespace ph
