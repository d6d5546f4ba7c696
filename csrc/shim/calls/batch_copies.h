// Copies that both CUDA APIs take many of in one call, in the one order that all GPUs may do them in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/calls/stream_calls.h"
#include "shim/streams/copies.h"

namespace ph::calls {

// Each entry of `attributes` holds from the copy on that `firsts` has at its place.
template <class Address, class Source, class Attributes>
struct Batch {
  const Address* destinations;
  const Source* sources;
  const std::size_t* bytes;
  std::size_t count;
  const Attributes* attributes;
  const std::size_t* firsts;
  std::size_t attribute_count;

  bool is_valid() const noexcept {
    if (!destinations || !sources || !bytes || !attributes || !firsts) return false;
    if (attribute_count == 0 || attribute_count > count || firsts[0] != 0 || firsts[attribute_count - 1] >= count)
      return false;
    for (std::size_t i = 0; i < attribute_count; ++i) {
      const auto order = static_cast<int>(attributes[i].srcAccessOrder);  // by the stream, during the call, any
      if (order < 1 || order > 3 || (i != 0 && firsts[i] <= firsts[i - 1])) return false;
    }
    return true;
  }
};

// Nothing is copied where something is wrong. `failed`, which may be null: which copy is, else the greatest number.
template <class Address, class Source, class Attributes>
Status copy_batch(const Batch<Address, Source, Attributes>& batch, const void* handle, StreamRef stream,
                  std::size_t* failed) noexcept {
  if (failed != nullptr) *failed = SIZE_MAX;
  if (handle == nullptr || !batch.is_valid()) return Status::InvalidValue;
  const auto to = [&batch](std::size_t i) { return (void*)batch.destinations[i]; };
  const auto from = [&batch](std::size_t i) { return (const void*)batch.sources[i]; };
  for (std::size_t i = 0; i < batch.count; ++i) {
    const std::size_t bytes = batch.bytes[i];
    if (bytes != 0 && can_copy(to(i), bytes, from(i), bytes, bytes, 1)) continue;
    if (failed != nullptr) *failed = i;
    return Status::InvalidValue;
  }
  for (std::size_t i = 0; i < batch.count; ++i) copy_async(to(i), from(i), batch.bytes[i], stream);
  return Status::Success;
}

}  // namespace ph::calls
