// The clock reads of the program's own Python lines, which tell what it times itself.
#pragma once

namespace ph {

// Before the interpreter reads a clock on a driver thread that holds the GIL: marks the line that asked for it, if it is
// the user's own and the host clock has moved since that line's last mark.
void mark_clock_read() noexcept;

}  // namespace ph
