// The beginning of a wait.
#pragma once

#include <cstdint>

#include "protocol/records.h"
#include "protocol/switchboard.h"

namespace ph {

// Writes the Wait record and tells its slot. The call to `recipient` begins with the answer.
std::uint32_t emit_wait(Record& record, Recipient recipient = kNobody, Nanoseconds extra_gap_ns = 0) noexcept;

}  // namespace ph
