// A tensor as cuDNN sees it, whichever interface described it.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/cudnn/cudnn_types.h"

namespace ph::cudnn {

using Sizes = std::vector<std::int64_t>;

struct Tensor {
  int data_type = -1;
  Sizes sizes;    // batch, channels, height, width; or batch, heads, rows, columns
  Sizes strides;  // in elements
  std::int64_t uid = -1;
  bool in_memory = false;  // neither between two operations of a graph nor a scalar passed by value
  bool ragged = false;     // sequences of unequal length, one after the other; `sizes` has the longest

  bool has_rank(std::size_t rank) const noexcept { return sizes.size() == rank; }
  std::int64_t elements() const noexcept;
  std::int64_t bytes() const noexcept;
  // From the first element to the last.
  std::int64_t span_bytes() const noexcept;
  // "channels_last", "contiguous" or, for anything else, "strided".
  const char* layout() const noexcept;
};

// As docs/records.md names types.
const char* type_name(int data_type) noexcept;
std::int64_t type_bytes(int data_type) noexcept;
std::int64_t product_of(const Sizes& sizes, std::size_t from) noexcept;

}  // namespace ph::cudnn
