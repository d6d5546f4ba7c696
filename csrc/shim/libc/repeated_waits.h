// Waits of a thread of the framework's own until a deadline that it has computed when its clock was ahead of the rank's
// (rule 4 in virtual_clock.cc). They take no longer than the thread meant. All is about the calling thread.
#pragma once

#include <ctime>

#include "protocol/nanoseconds.h"

namespace ph {

// How long the wait that begins now takes, which by the clock is `left_ns`. `deadline_ns`: in virtual time.
Nanoseconds shorten_wait(Nanoseconds deadline_ns, Nanoseconds left_ns) noexcept;
// That wait has run out. If it was shortened, the next read of each clock shows its deadline: libstdc++ looks whether that
// has come, at one clock or two, and would wait again.
void end_wait() noexcept;
// What a read of `clock` that begins now is to show at least, in virtual time.
Nanoseconds take_shown_deadline(clockid_t clock) noexcept;

}  // namespace ph
