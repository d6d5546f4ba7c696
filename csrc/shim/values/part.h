// The bytes of one contribution to a small collective, and which of them are known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shim/values/exchange.h"

namespace ph {

struct Part {
  using Range = std::pair<std::uint32_t, std::uint32_t>;  // begin and end

  Bytes bytes;               // zero where unknown; empty if nothing is known
  std::vector<Range> known;  // sorted, apart
  std::vector<Range> unwritten;

  bool empty() const noexcept { return known.empty(); }
  // Where the last byte ends that something is said of.
  std::uint32_t end() const noexcept {
    return std::max(known.empty() ? 0 : known.back().second, unwritten.empty() ? 0 : unwritten.back().second);
  }
};

// From and to memory, within a value operation. `write` makes the unknown part of the destination unknown.
Part read_part(const void* pointer, std::size_t bytes);
void write_part(void* pointer, std::size_t bytes, const Part& part);

Part slice(const Part& part, std::size_t offset, std::size_t bytes);
// Known where all are; widths that do not fill an element of `element_bytes` fall away.
std::vector<Part::Range> known_in_all(std::span<const Part> parts, std::size_t element_bytes);

// As a message: several parts one after the other.
void pack(const Part& part, Bytes& message);
std::vector<Part> unpack(std::span<const unsigned char> message);

}  // namespace ph
