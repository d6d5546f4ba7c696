// The host gaps that `--host-time recorded` charges: lines "<ns> <key>" of `host-gaps` in the run directory.
//
// A launch is looked up by its signature, else by the signature's family: its text up to the first number, which is
// the kernel's name, or the library and the operation. What is not found costs what the fixed table says.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/nanoseconds.h"
#include "shim/core/api.h"

namespace ph {

Nanoseconds replayed_gap_ns(std::uint32_t signature) noexcept;
Nanoseconds replayed_gap_ns(const ApiTable& table, std::size_t row, HostCost cost) noexcept;
void name_replayed(std::uint32_t signature, std::string_view json);
// As a statistic of the record stream (docs/records.md): calls and time by where the gap came from.
void emit_replayed_counts();

}  // namespace ph
