// What the sources of our CUPTI share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/nanoseconds.h"
#include "shim/calls/library.h"
#include "shim/cupti/cupti_types.h"
#include "shim/profiling/activities.h"

namespace ph::cupti {

// As our own trace numbers them: on hardware the legacy default stream is 7. A context is its device plus one.
constexpr std::uint32_t stream_number(std::uint32_t stream) noexcept { return stream + 7; }
constexpr std::uint32_t context_number(std::uint32_t device) noexcept { return device + 1; }

// A virtual time as the profiler's clock tells it.
std::uint64_t timestamp(Nanoseconds time_ns) noexcept;

// The number of a call of the runtime or driver API; 0: it has none.
CUpti_CallbackId callback_id(profiling::Kind domain, std::string_view call) noexcept;

// Bytes of a record of this kind; 0: there are none of it.
std::size_t record_bytes(CUpti_ActivityKind kind) noexcept;
inline constexpr std::size_t kMostRecordBytes = sizeof(CUpti_ActivityKernel11);
// Writes the record of an activity and returns its size; 0: the profiler does not want it.
std::size_t write_record(const profiling::Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to);

// By which of two kinds the profiler has asked for kernels, and whether it wants this call.
CUpti_ActivityKind kind_of_kernels() noexcept;
bool wants_call(profiling::Kind domain, CUpti_CallbackId callback) noexcept;

}  // namespace ph::cupti
