// The clock reads of the program's own Python lines, which tell what it times itself.
//
// The interpreter reads a clock for itself too, whenever it takes a lock, and what a read was for shows only in what
// comes after it. So a read is marked when the thread goes on, before its host clock moves or it writes a record.
#pragma once

#include "shim/core/api.h"

namespace ph {

// The interpreter reads a clock, on a driver thread that holds the GIL.
void note_clock_read() noexcept;
// The thread's last read was not the program's.
void drop_clock_read() noexcept;
// The thread goes on: a line of the user's own that has read a clock is marked, if the host clock has moved since that
// line's last mark.
void mark_clock_read() noexcept;

}  // namespace ph
