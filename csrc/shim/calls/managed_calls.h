// The calls about managed memory that the runtime API and the driver API both have, each written once.
//
// Advices, attributes and types of locations have the same values in both. Source: CUDA runtime API and CUDA driver API,
// "Memory Management" and "Unified Addressing".
#pragma once

#include <cstddef>

#include "shim/calls/stream_calls.h"
#include "shim/core/api.h"

namespace ph::calls {

// As cudaMemLocation and CUmemLocation, by their members.
struct Location {
  int type;
  int id;
};
// What the calls before CUDA 12.2 take: the number of a device, or cudaCpuDeviceId.
PH_EXPORT Location location_of(int device) noexcept;

PH_EXPORT Status allocate_managed(void** pointer, std::size_t bytes, unsigned flags) noexcept;
PH_EXPORT Status prefetch(const void* pointer, std::size_t bytes, Location location, unsigned flags,
                          void* stream) noexcept;
PH_EXPORT Status advise(const void* pointer, std::size_t bytes, int advice, Location location) noexcept;
PH_EXPORT Status range_attribute(void* data, std::size_t data_bytes, int attribute, const void* pointer,
                                 std::size_t bytes) noexcept;
// `Attribute`: either API's. The first that fails ends it.
template <class Attribute>
Status range_attributes(void** data, const std::size_t* data_bytes, const Attribute* attributes, std::size_t count,
                        const void* pointer, std::size_t bytes) noexcept {
  if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) return Status::InvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    const Status status = range_attribute(data[i], data_bytes[i], attributes[i], pointer, bytes);
    if (status != Status::Success) return status;
  }
  return Status::Success;
}
PH_EXPORT Status attach_memory(void* stream, const void* pointer, std::size_t bytes, unsigned flags) noexcept;

}  // namespace ph::calls
