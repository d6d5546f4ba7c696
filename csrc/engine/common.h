// What every part of the engine uses: time, settings, and the two kinds of failure.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/nanoseconds.h"
#include "protocol/records.h"

namespace ph {

// Of one rank's GPU in all, some 104 days: a thousand ranks that do it one after the other stay far from an overflow.
inline constexpr Nanoseconds kMostWork = Nanoseconds{1} << 53;

// What comes first at one time; docs/decisions/inbox-phases.md says why.
enum class Phase : std::uint8_t {
  End,       // work ends
  Question,  // a query is answered
  Wait,      // a rank begins to wait
  Issue,     // everything else that a rank issues
};

// When something happens, among all that happens at one time.
struct Moment {
  Nanoseconds time_ns = kNever;
  std::uint32_t round = 0;
  Phase phase = Phase::End;

  auto operator<=>(const Moment&) const = default;
};

using Index = std::uint32_t;
inline constexpr Index kNone = 0xffffffff;

// The records say something they may not say; the message names the rank and the record.
struct MalformedInput : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// The engine itself is wrong. Never compiled out: a wrong history must not be reported as a result.
struct BrokenInvariant : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool holds, const char* what) {
  if (!holds) [[unlikely]]
    throw BrokenInvariant(what);
}

struct Rate {
  Nanoseconds latency_ns;
  std::int64_t bytes_per_s;
};

inline Nanoseconds moving_ns(const Rate& rate, std::uint64_t size_bytes) {
  const auto divisor = static_cast<unsigned __int128>(rate.bytes_per_s);
  const unsigned __int128 exact = (static_cast<unsigned __int128>(size_bytes) * 1'000'000'000 + divisor - 1) / divisor;
  return static_cast<Nanoseconds>(std::min(exact, static_cast<unsigned __int128>(kNever)));
}

inline bool is_transferable(const Rate& rate, std::uint64_t size_bytes) {
  return moving_ns(rate, size_bytes) <= kMostWork;
}

// Source of the rounding: completion times round up, once.
inline Nanoseconds transfer_ns(const Rate& rate, std::uint64_t size_bytes) {
  if (!is_transferable(rate, size_bytes)) throw MalformedInput("a copy would take months");
  return rate.latency_ns + moving_ns(rate, size_bytes);
}

inline constexpr std::size_t kCopyKinds = 6;  // CopyKind values are 1 to 5

// The model of a rank's devices.
struct Gpu {
  std::uint32_t sm_count;
  std::uint32_t comm_sm;  // SMs that one NCCL launch occupies
  std::array<std::array<std::optional<Rate>, 2>, kCopyKinds> copy;  // [CopyKind][pageable]
  Rate fill;
};

struct Settings {
  std::uint32_t ranks;
  std::vector<std::uint32_t>
      live;  // those that are fed, in order; the others are absent, members of communicators only
  Gpu gpu;  // of every rank that is not given another
};

}  // namespace ph
