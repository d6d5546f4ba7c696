// The text behind ncclGetLastError.
#pragma once

#include <string>

#include "shim/nccl/nccl_types.h"

namespace ph::nccl {

// Keeps the text and returns `result`.
ncclResult_t failed(ncclResult_t result, std::string text) noexcept;

// What the last failing call of the process said, as in NCCL; empty: none failed.
const char* last_failure() noexcept;

}  // namespace ph::nccl
