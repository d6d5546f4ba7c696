#include "shim/kernels/kernel_lookups.h"

#include <cstring>

namespace ph {
namespace {

using Kind = SizeReader::Kind;

constexpr std::string_view kAccessor = "at::GenericPackedTensorAccessor<";

// Dimensions of an accessor's tensor and bytes of its sizes; no dimensions for another type.
SizeReader accessor(std::string_view type, std::size_t index, Kind kind) {
  SizeReader reader{.kind = kind, .parameter = static_cast<std::uint16_t>(index)};
  if (!type.starts_with(kAccessor)) return reader;
  if (type.find(", 1ul, ") != std::string_view::npos) reader.count = 1;
  if (type.find(", 2ul, ") != std::string_view::npos) reader.count = 2;
  reader.width_bytes = type.ends_with(", int>") ? 4 : 8;
  return reader;
}

bool is_vector(std::string_view type, std::string_view element) {
  return type.starts_with(kAccessor) && type.substr(kAccessor.size()).starts_with(element) &&
         accessor(type, 0, Kind::Lookups).count == 1;
}

// Source: fbgemm_gpu 1.3, embedding_forward_split_kernel_template.cu: weights first, then what says where tables are,
// a divisor, the indices, their offsets, ..., the output last.
void plan_forward(const std::vector<std::string>& types, std::vector<SizeReader>& readers) {
  std::size_t divisor = 0;
  while (divisor < types.size() && types[divisor] != "fbgemm_gpu::FixedDivisor") ++divisor;
  if (divisor + 2 >= types.size()) return;
  readers.push_back(accessor(types.front(), 0, Kind::Weights));
  readers.push_back(accessor(types[divisor + 1], divisor + 1, Kind::Lookups));
  readers.push_back(accessor(types[divisor + 2], divisor + 2, Kind::Bags));
  readers.push_back(accessor(types.back(), types.size() - 1, Kind::Results));
}

// Source: fbgemm_gpu 1.3, embedding_backward_split_kernel_*_template.cu: gradients and weights first; where weights begin
// and the sums of the tables' rows are the first two vectors of 64-bit integers, the sorted indices follow.
void plan_backward(const std::vector<std::string>& types, std::vector<SizeReader>& readers) {
  std::size_t vectors = 0, sums = 0;
  for (; sums < types.size() && vectors < 2; ++sums) vectors += is_vector(types[sums], "long,") ? 1 : 0;
  if (vectors < 2 || sums >= types.size()) return;
  readers.push_back(accessor(types[0], 0, Kind::Results));
  readers.push_back(accessor(types[1], 1, Kind::Weights));
  readers.push_back(accessor(types[sums], sums, Kind::Lookups));
}

// An accessor's integers.
IntegerVector accessed(std::string_view type, std::size_t index) {
  const SizeReader reader = accessor(type, index, Kind::Lookups);
  IntegerVector vector{.parameter = reader.parameter, .length_bytes = static_cast<std::uint8_t>(reader.width_bytes)};
  if (is_vector(type, "long,")) vector.element_bytes = 8;
  if (is_vector(type, "int,")) vector.element_bytes = 4;
  return vector;
}

// As plan_forward has them. Where weights begin in each table is the last vector of 64-bit integers before the divisor.
std::optional<IndexVectors> find_fused_indices(const std::vector<std::string>& types) {
  std::size_t divisor = 0, tables = 0;
  for (; divisor < types.size() && types[divisor] != "fbgemm_gpu::FixedDivisor"; ++divisor)
    if (is_vector(types[divisor], "long,")) tables = divisor;
  if (divisor + 2 >= types.size() || tables == 0) return std::nullopt;
  IndexVectors found{accessed(types[divisor + 1], divisor + 1), accessed(types[divisor + 2], divisor + 2),
                     accessed(types[tables], tables)};
  if (found.indices.element_bytes == 0 || found.offsets->element_bytes == 0) return std::nullopt;
  return found;
}

// Indices at `index`, as many as parameter `length` says.
std::optional<IndexVectors> find_plain_indices(const std::vector<std::string>& types, std::size_t index,
                                               std::size_t length) {
  const std::string_view type = types[index], of_length = types[length];
  IntegerVector vector{.parameter = static_cast<std::uint16_t>(index),
                       .length_parameter = static_cast<std::uint16_t>(length)};
  if (type.starts_with("long")) vector.element_bytes = 8;
  if (type.starts_with("int")) vector.element_bytes = 4;
  if (of_length == "long") vector.length_bytes = 8;
  if (of_length == "int") vector.length_bytes = 4;
  if (vector.element_bytes == 0 || vector.length_bytes == 0 || !type.ends_with("*")) return std::nullopt;
  return IndexVectors{vector};
}

// The name without the arguments of its template.
bool is_named(std::string_view name, std::string_view part) {
  return name.substr(0, name.find('<')).find(part) != std::string_view::npos;
}

}  // namespace

// Not those of inference, whose results are not last, nor those with global weight decay, which write what they decay by.
bool is_forward_lookup(std::string_view name) {
  constexpr std::string_view kResult = "void ";
  if (name.starts_with(kResult)) name.remove_prefix(kResult.size());
  const bool trains = name.starts_with("split_embedding_") || name.starts_with("dense_embedding_");
  return trains && is_named(name, "codegen_forward_") && !is_named(name, "_gwd_");
}

// Source: ATen/native/cuda/EmbeddingBag.cu, EmbeddingBag_updateOutputKernel_*(indices, offsets, weights, output, offset2bag,
// how many, ...).
std::optional<IndexVectors> find_indices(std::string_view name, const std::vector<std::string>& types) {
  if (types.size() > 5 && is_named(name, "EmbeddingBag_updateOutputKernel")) return find_plain_indices(types, 0, 5);
  if (is_forward_lookup(name) && !is_named(name, "_vbe_")) return find_fused_indices(types);
  return std::nullopt;
}

Integers read_vector(const IntegerVector& vector, void* const* args) noexcept {
  const void* const argument = args[vector.parameter];
  const void* length = static_cast<const char*>(argument) + sizeof(void*);
  if (vector.length_parameter) length = args[*vector.length_parameter];
  Integers integers;
  std::memcpy(&integers.data, argument, sizeof integers.data);
  std::int64_t count = 0;  // little-endian
  std::memcpy(&count, length, vector.length_bytes);
  integers.count = count > 0 ? static_cast<std::size_t>(count) : 0;
  return integers;
}

std::vector<SizeReader> plan_lookups(std::string_view name, const std::vector<std::string>& types) {
  std::vector<SizeReader> readers;
  // Batches of another size for each table are laid out otherwise.
  if (types.empty() || is_named(name, "_vbe_")) return readers;
  if (is_forward_lookup(name)) plan_forward(types, readers);
  if (is_named(name, "_embedding_") && is_named(name, "backward_codegen_") && is_named(name, "_per_row_"))
    plan_backward(types, readers);
  for (const SizeReader& reader : readers) {
    const std::uint32_t wanted = reader.kind == Kind::Results ? 2 : 1;
    if (reader.count != wanted) return {};
  }
  return readers;
}

}  // namespace ph
