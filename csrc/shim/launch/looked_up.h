// How often the rows of a lookup repeat, from the indices that it gets, where their values are known.
#pragma once

#include <cstdint>

#include "shim/kernels/kernel_lookups.h"

namespace ph {

// Different rows of all tables, to two digits, so that batches that are alike have one signature; kUnknownSize: nobody knows
// the indices, or there are too many to look at.
std::int64_t distinct_rows(const IndexVectors& vectors, void* const* args);

}  // namespace ph
