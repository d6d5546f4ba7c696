// Which arguments of kernels that look rows up are the indices, and of FBGEMM's those whose sizes tell how much is looked
// up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shim/kernels/kernel_structures.h"

namespace ph {

// The readers of a kernel of this demangled name with these parameters; none if it looks nothing up.
std::vector<SizeReader> plan_lookups(std::string_view name, const std::vector<std::string>& types);

// Integers in device memory that a kernel gets: a pointer, and an argument that says how many, or an accessor.
struct IntegerVector {
  std::uint16_t parameter = 0;
  std::uint8_t element_bytes = 0;
  std::uint8_t length_bytes = 0;  // of that argument, or of an accessor's sizes
  std::optional<std::uint16_t> length_parameter = std::nullopt;  // none: an accessor
};

struct Integers {
  const void* data = nullptr;
  std::size_t count = 0;
};

Integers read_vector(const IntegerVector& vector, void* const* args) noexcept;

// The rows that a forward pass looks up, with bags or by FBGEMM. Those of several tables follow each other: `offsets` are
// those of the bags, as many of each table, and `tables` has one element for each.
struct IndexVectors {
  IntegerVector indices;
  std::optional<IntegerVector> offsets = std::nullopt;
  std::optional<IntegerVector> tables = std::nullopt;
};

// Of a kernel of this demangled name with these parameters; none if it looks nothing up, or one cannot tell.
std::optional<IndexVectors> find_indices(std::string_view name, const std::vector<std::string>& types);

// Whether it is a kernel that reads tables and writes results.
bool is_forward_lookup(std::string_view name);

}  // namespace ph
