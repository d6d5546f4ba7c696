// The host gaps that a run with `--host-time measured` keeps, so that later runs can replay them.
//
// A key's gap is the median, over iterations, of its mean in one iteration. Within an iteration the mean keeps sums
// right: a kernel that follows an addition fifty times and the start of an optimizer step once gets its share of both.
// Over iterations the median leaves out what happened in some of them only: page faults, garbage collection, cold
// caches. What comes before the first iteration ends or after the last counts for keys that occur nowhere else.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"

namespace ph {

void record_gap(std::uint32_t signature, Nanoseconds gap_ns) noexcept;
void record_gap(const ApiTable& table, std::size_t row, Nanoseconds gap_ns) noexcept;
void name_recorded(std::uint32_t signature, std::string_view json);
void end_recorded_iteration() noexcept;
// As statistics of the record stream (docs/records.md).
void emit_recorded_gaps();

}  // namespace ph
