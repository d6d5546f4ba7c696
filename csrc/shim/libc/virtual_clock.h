// The virtual clocks of a rank as its program sees them. See virtual_clock.cc for the rules.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

#include "protocol/nanoseconds.h"

namespace ph {

// A driver's waits and clock reads move the rank's host clock; other threads, and processes forked from the
// rank, only look at it.
bool drives_clock() noexcept;
// Whether the last clock reads of drivers, with nothing between them, were so many that each moves the host clock.
bool polls_clock() noexcept;

// Reading of libc's `clock` at virtual time 0; nothing for clocks that stay real (CPU time, dynamic clocks).
std::optional<Nanoseconds> clock_epoch_ns(clockid_t clock) noexcept;

// Virtual time for the calling thread. `read` is what a program's clock read does: it costs a driver a little.
// `latest` is no earlier than what a read of a driver has told.
Nanoseconds read_virtual_ns() noexcept;
Nanoseconds peek_virtual_ns() noexcept;
// A profiler's read. It costs nothing however often it comes: what is observed must not depend on being observed.
Nanoseconds observe_virtual_ns() noexcept;
// The last read of the rank again, or the host clock if that has come further.
Nanoseconds shown_virtual_ns() noexcept;
Nanoseconds latest_virtual_ns() noexcept;
// What this thread's last clock read told beyond the host clock.
Nanoseconds told_lead_ns() noexcept;
// This thread's last read was not the program's, or told the bare host clock.
void forget_read() noexcept;
void tell_no_lead() noexcept;

// Before a driver's clock read: a rank that was set aside has stood still, so it comes back first. A loop of the
// framework's own that looks outside does not: how often it looks at a clock differs from run to run.
void catch_up(const void* caller) noexcept;

// When a wait of `duration_ns` that begins now ends: kLatest at the latest, for the simulation goes no further.
Nanoseconds after(Nanoseconds now_ns, Nanoseconds duration_ns) noexcept;

// The calling thread is about to wait: if it drives, its reads of a clock are no spinning.
void note_wait() noexcept;

// The calling thread begins at this time, which is what its clock tells until it grows up: it waits for something.
void be_born(Nanoseconds time_ns) noexcept;
void grow_up() noexcept;

// The calling thread's wait for `deadline_ns` ran out: for it, that time has come. `lead_ns`: by which its last reading
// was later than the host clock. `rang`: the simulation has come there; otherwise so much real time has passed.
void pass_deadline(Nanoseconds deadline_ns, Nanoseconds lead_ns, bool rang) noexcept;

// Sleeps for `duration_ns` of virtual time. Returns 0, or -1 with errno EINTR and the rest in `remaining`.
// `caller`: where the libc function will return to.
int sleep_virtual(Nanoseconds duration_ns, timespec* remaining, const void* caller) noexcept;

}  // namespace ph
