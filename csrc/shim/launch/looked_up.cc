#include "shim/launch/looked_up.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Sorting so many takes a tenth of a second.
constexpr std::size_t kMostIndices = 1u << 20;
constexpr int kBits = 6;  // that are kept: to one in 32 to 64

// Empty: not all of them are known. What depends on a small collective is waited for, as in small operations.
std::vector<std::int64_t> known_values(const Integers& integers, std::size_t element_bytes) {
  const std::size_t bytes = integers.count * element_bytes;
  if (integers.count == 0 || integers.count > kMostIndices || !is_known(integers.data, bytes)) return {};
  std::vector<std::int64_t> values(integers.count);
  bool known = false;
  enqueue_value(
      [&] {
        known = known_now().covers(integers.data, bytes);
        if (!known) return;
        const auto* from = static_cast<const unsigned char*>(integers.data);
        for (std::int64_t& value : values) {
          if (element_bytes == sizeof(std::int32_t)) {
            std::int32_t narrow;
            std::memcpy(&narrow, from, sizeof narrow);
            value = narrow;
          } else {
            std::memcpy(&value, from, sizeof value);
          }
          from += element_bytes;
        }
      },
      {{integers.data, bytes, false}});
  await_values_of(integers.data, bytes);
  return known ? values : std::vector<std::int64_t>{};
}

// Sorts them.
std::int64_t distinct_of(std::vector<std::int64_t>::iterator begin, std::vector<std::int64_t>::iterator end) {
  std::sort(begin, end);
  return std::unique(begin, end) - begin;
}

std::int64_t rounded(std::int64_t count) noexcept {
  const int width = std::bit_width(static_cast<std::uint64_t>(count));
  const int dropped = std::max(0, width - kBits);
  const std::int64_t half = dropped > 0 ? std::int64_t{1} << (dropped - 1) : 0;
  return (count + half) >> dropped << dropped;
}

}  // namespace

std::int64_t distinct_rows(const IndexVectors& vectors, void* const* args) {
  std::vector<std::int64_t> rows = known_values(read_vector(vectors.indices, args), vectors.indices.element_bytes);
  if (rows.empty()) return kUnknownSize;
  if (!vectors.offsets) return rounded(distinct_of(rows.begin(), rows.end()));
  const Integers bags = read_vector(*vectors.offsets, args);
  const std::size_t tables = read_vector(*vectors.tables, args).count;
  const std::vector<std::int64_t> offsets = known_values(bags, vectors.offsets->element_bytes);
  if (tables == 0 || offsets.empty() || (offsets.size() - 1) % tables != 0) return kUnknownSize;
  const std::size_t of_each = (offsets.size() - 1) / tables;
  std::int64_t distinct = 0;
  for (std::size_t table = 0; table < tables; ++table) {
    const std::int64_t begin = offsets[table * of_each], end = offsets[(table + 1) * of_each];
    if (begin < 0 || begin > end || end > static_cast<std::int64_t>(rows.size())) return kUnknownSize;
    distinct += distinct_of(rows.begin() + begin, rows.begin() + end);
  }
  return rounded(distinct);
}

}  // namespace ph
