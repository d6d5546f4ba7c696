// The ring of records, of which the rank writes the end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "protocol/channel.h"
#include "protocol/records.h"

namespace ph {

// A reply slot that a thread has claimed, and the call that begins when what it writes is answered there.
struct Claim {
  std::uint32_t slot;
  Recipient recipient = kNobody;
};

// Writes the records and the payload of the last one. If the rank was set aside or an alarm is due, a driver writes a
// Resume wait first.
// `claim`: the caller's for these records; its slot serves for a Resume wait before. Whoever held one slot and claimed a
// second might wait for ever for threads that do the same.
void write_or_resume(std::span<Record> records, std::string_view payload, std::optional<Claim> claim,
                     Nanoseconds extra_gap_ns = 0) noexcept;
// Writes a background wait. It takes no host time and brings no rank back: when a thread begins or ends to wait differs
// from run to run.
void tell_of_wait(WaitKind kind, std::uint32_t slot, std::uint64_t first = 0, std::uint64_t second = 0) noexcept;

}  // namespace ph
