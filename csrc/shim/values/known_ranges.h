// A set of byte ranges: the parts of memory whose values are true.
//
// Ranges that touch are not joined: what a kernel overwrites is forgotten range by range, and neighbours in the
// program's allocator have nothing to do with each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace ph {

class KnownRanges {
 public:
  bool empty() const noexcept { return ranges_.empty(); }

  void add(const void* pointer, std::size_t bytes) {
    remove(pointer, bytes);
    if (bytes != 0) ranges_[address(pointer)] = address(pointer) + bytes;
    for (const auto& [from, to] : forbidden_) remove(reinterpret_cast<const void*>(from), to - from);
  }

  // Nothing in a range that is not allowed is known. A range is allowed again as it was forbidden.
  void allow(const void* pointer, std::size_t bytes, bool allowed) {
    allowed ? void(forbidden_.erase(address(pointer))) : void(forbidden_[address(pointer)] = address(pointer) + bytes);
    remove(pointer, bytes);
  }

  // False: there was nothing to remove.
  bool remove(const void* pointer, std::size_t bytes) {
    const std::uintptr_t begin = address(pointer);
    const std::uintptr_t end = begin + bytes;
    auto range = first_after(begin);
    const bool found = range != ranges_.end() && range->first < end;
    while (range != ranges_.end() && range->first < end) {
      const auto [from, to] = *range;
      range = ranges_.erase(range);
      if (from < begin) ranges_[from] = begin;
      if (to > end) range = ranges_.emplace(end, to).first;
    }
    return found;
  }

  // Calls visit(begin, bytes), both within the given range, for each known part of it.
  template <class Visit>
  void each_in(const void* pointer, std::size_t bytes, Visit&& visit) const {
    const std::uintptr_t begin = address(pointer);
    const std::uintptr_t end = begin + bytes;
    for (auto range = first_after(begin); range != ranges_.end() && range->first < end; ++range) {
      const std::uintptr_t from = std::max(range->first, begin);
      visit(from, std::min(range->second, end) - from);
    }
  }

  std::size_t known_bytes(const void* pointer, std::size_t bytes) const {
    std::size_t known = 0;
    each_in(pointer, bytes, [&known](std::uintptr_t, std::size_t part) { known += part; });
    return known;
  }

  bool covers(const void* pointer, std::size_t bytes) const { return known_bytes(pointer, bytes) == bytes; }

  // Bytes from `pointer` to the end of the range that holds it; 0: no range does.
  std::size_t bytes_from(const void* pointer) const {
    const auto range = first_after(address(pointer));
    const bool inside = range != ranges_.end() && range->first <= address(pointer);
    return inside ? range->second - address(pointer) : 0;
  }

 private:
  using Ranges = std::map<std::uintptr_t, std::uintptr_t>;  // begin to end

  static std::uintptr_t address(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

  // The first range that ends after `begin`.
  Ranges::const_iterator first_after(std::uintptr_t begin) const {
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second > begin) --range;
    return range;
  }

  Ranges ranges_;
  Ranges forbidden_;  // few programs have any
};

}  // namespace ph
