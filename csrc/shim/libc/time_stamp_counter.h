// The processor's time-stamp counter, as PyTorch's libraries read it for their profiler: in virtual time.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"

namespace ph {

// Ticks of the counter in a virtual nanosecond. A power of two: the profiler finds the rate from pairs of readings, and
// gets it exactly so.
inline constexpr int kTicksLog2 = 12;
// By which it was there before virtual time: what is compared lies before the run's beginning, too.
inline constexpr Nanoseconds kCounterAheadNs = Nanoseconds{1} << 37;
constexpr std::uint64_t ticks_at(Nanoseconds time_ns) noexcept {
  return static_cast<std::uint64_t>(time_ns + kCounterAheadNs) << kTicksLog2;
}

// From now on what the loaded libraries of PyTorch read from the counter is virtual. Again for those loaded since.
PH_EXPORT void make_counter_virtual() noexcept;
// How often this thread has read it so.
PH_EXPORT std::uint64_t counter_reads() noexcept;

// What this thread's clock read tells if the profiler compares it with the counter, of which it has just read the same.
std::optional<Nanoseconds> compared_ns() noexcept;

// The program sets a handler for SIGILL, by which we know the reads: kept, for what is not ours. False: ours is not
// installed.
bool keep_illegal_handler(const struct sigaction* action, struct sigaction* before) noexcept;

}  // namespace ph
