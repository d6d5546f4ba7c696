// Times and durations in nanoseconds. All of them have this one type, and names that end in `_ns`.
#pragma once

#include <cstdint>
#include <limits>

namespace ph {

using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
// Some 36 years. Times and durations beyond it are malformed input, so that sums cannot overflow.
inline constexpr Nanoseconds kLatest = Nanoseconds{1} << 60;

}  // namespace ph
