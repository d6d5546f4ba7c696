// What the program's own work costs a rank in virtual time, by the run's host-time model.
//
// docs/decisions/host-time.md says what each model means. A call that is charged belongs to a key: a launch to the
// signature of its kernel, any other to its symbol. Calls of class None and Light, and clock reads, belong to none:
// what the program does before them counts towards the next call that has one.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/channel/hooks.h"  // name_signature
#include "shim/core/api.h"

namespace ph {

// At the entry of a call by a thread that drives the rank.
void charge_call(const ApiTable& table, std::size_t row, HostCost cost) noexcept;
// Before the record of a launch is written.
void charge_launch(std::uint32_t signature) noexcept;
// For a library's call whose one record stands for many kernels: what the library takes for the others. The device works
// on the first ones meanwhile, so it comes after the record.
PH_EXPORT void charge_further_kernels(std::int64_t kernels) noexcept;

// The program has passed a marker that ends an iteration.
void end_host_iteration() noexcept;
// Likewise one of phantora_py.mark_iteration(), which ends a sample (samples.h).
void end_host_sample() noexcept;
// Tells the run what was measured, or where the charges came from.
void emit_host_time();

}  // namespace ph
