// What a run with `--host-time measured --host-samples` tells of each iteration: the processor time of the program's own
// work, and the counts of that work (work.h). Coefficients of `counted` are fitted to such samples.
#pragma once

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"

namespace ph {

// What is open on this thread has taken so long.
void sample_work(Nanoseconds spent_ns) noexcept;
void sample_call(HostCost cost) noexcept;
// As a statistic of the record stream (docs/records.md): what has come since the last one.
void emit_sample() noexcept;

}  // namespace ph
