// The record stream in C++: what the schema does not say (sim_server/records/schema.py, protocol/record_kinds.h).
//
// The stream is complete, typed and versioned. Rules: plain C++ with fixed-width integers, no dependency; little endian;
// one cell is 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/nanoseconds.h"
#include "protocol/record_kinds.h"

namespace ph {

// What is known about the events of one stream, so that the rank need not ask: programs poll events all the time.
struct EventNews {
  std::uint32_t stream;
  std::uint32_t device;
  std::uint64_t done;  // this instance, and those before it, are done
  std::uint64_t pending;  // this one, and those after it, are not done before `not_before_ns`; 0: none
  Nanoseconds not_before_ns;
};
static_assert(sizeof(EventNews) == 32);

// When device work ran that its record has given a number.
struct ActivityTimes {
  std::uint64_t activity;
  Nanoseconds start_ns;
  Nanoseconds end_ns;
};
static_assert(sizeof(ActivityTimes) == 24);
inline constexpr std::size_t kActivitiesAtOnce = 512;  // in one answer

inline constexpr std::size_t payload_cells(std::size_t payload_bytes) {
  return (payload_bytes + kCellBytes - 1) / kCellBytes;
}

inline constexpr bool has_payload(RecordKind kind) { return static_cast<std::uint8_t>(kind) < kFirstWithoutPayload; }

}  // namespace ph
