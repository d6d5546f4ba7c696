// A set of byte ranges: the parts of memory whose values are true; and those that nobody has written, which hold
// nothing that could be known: on hardware, too, a program that decides by them decides by chance.
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

  void add_unwritten(const void* pointer, std::size_t bytes) {
    remove(pointer, bytes);
    if (bytes != 0) unwritten_[address(pointer)] = address(pointer) + bytes;
  }

  // Nothing in a range that is not allowed is known. A range is allowed again as it was forbidden.
  void allow(const void* pointer, std::size_t bytes, bool allowed) {
    allowed ? void(forbidden_.erase(address(pointer))) : void(forbidden_[address(pointer)] = address(pointer) + bytes);
    remove(pointer, bytes);
  }

  // What is there is overwritten or freed. False: nothing was known.
  bool remove(const void* pointer, std::size_t bytes) {
    const std::uintptr_t begin = address(pointer);
    const std::uintptr_t end = begin + bytes;
    if (!unwritten_.empty()) remove_from(unwritten_, begin, end);
    return remove_from(ranges_, begin, end);
  }

  // Calls visit(begin, bytes), both within the given range, for each known part of it.
  template <class Visit>
  void each_in(const void* pointer, std::size_t bytes, Visit&& visit) const {
    each_of(ranges_, pointer, bytes, visit);
  }
  // Likewise for each part that nobody has written.
  template <class Visit>
  void each_unwritten(const void* pointer, std::size_t bytes, Visit&& visit) const {
    each_of(unwritten_, pointer, bytes, visit);
  }

  std::size_t known_bytes(const void* pointer, std::size_t bytes) const {
    std::size_t known = 0;
    each_in(pointer, bytes, [&known](std::uintptr_t, std::size_t part) { known += part; });
    return known;
  }

  // What a reader of all these bytes would have had on hardware, and has not here.
  std::size_t missing_bytes(const void* pointer, std::size_t bytes) const {
    std::size_t missing = bytes - known_bytes(pointer, bytes);
    each_unwritten(pointer, bytes, [&missing](std::uintptr_t, std::size_t part) { missing -= part; });
    return missing;
  }

  bool covers(const void* pointer, std::size_t bytes) const { return known_bytes(pointer, bytes) == bytes; }

  // Bytes from `pointer` to the end of the range that holds it; 0: no range does.
  std::size_t bytes_from(const void* pointer) const {
    const auto range = first_after(ranges_, address(pointer));
    const bool inside = range != ranges_.end() && range->first <= address(pointer);
    return inside ? range->second - address(pointer) : 0;
  }

 private:
  using Ranges = std::map<std::uintptr_t, std::uintptr_t>;  // begin to end

  static std::uintptr_t address(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

  // The first range that ends after `begin`.
  static Ranges::const_iterator first_after(const Ranges& ranges, std::uintptr_t begin) {
    auto range = ranges.upper_bound(begin);
    if (range != ranges.begin() && std::prev(range)->second > begin) --range;
    return range;
  }

  static bool remove_from(Ranges& ranges, std::uintptr_t begin, std::uintptr_t end) {
    auto range = first_after(ranges, begin);
    const bool found = range != ranges.end() && range->first < end;
    while (range != ranges.end() && range->first < end) {
      const auto [from, to] = *range;
      range = ranges.erase(range);
      if (from < begin) ranges[from] = begin;
      if (to > end) range = ranges.emplace(end, to).first;
    }
    return found;
  }

  template <class Visit>
  static void each_of(const Ranges& ranges, const void* pointer, std::size_t bytes, Visit&& visit) {
    const std::uintptr_t begin = address(pointer);
    const std::uintptr_t end = begin + bytes;
    for (auto range = first_after(ranges, begin); range != ranges.end() && range->first < end; ++range) {
      const std::uintptr_t from = std::max(range->first, begin);
      visit(from, std::min(range->second, end) - from);
    }
  }

  Ranges ranges_;
  Ranges unwritten_;  // none of it known
  Ranges forbidden_;  // few programs have any
};

}  // namespace ph
