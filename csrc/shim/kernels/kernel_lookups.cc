#include "shim/kernels/kernel_lookups.h"

#include <cstddef>
#include <cstdint>

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
