// Addresses that are free: ranges apart from each other, given out first fit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace ph {

class FreeRanges {
 public:
  // The lowest free addresses at a multiple of `step`, a power of two, from `least` on; 0: there are none.
  std::uintptr_t take(std::size_t bytes, std::size_t step = 1, std::uintptr_t least = 0) {
    for (const auto& [begin, end] : ranges_) {
      const std::uintptr_t base = (std::max(begin, least) + step - 1) / step * step;
      if (base < end && bytes <= end - base && take_at(base, bytes)) return base;
    }
    return 0;
  }

  // False: not all of them are free.
  bool take_at(std::uintptr_t base, std::size_t bytes) {
    auto range = ranges_.upper_bound(base);
    if (range == ranges_.begin()) return false;
    const auto [begin, end] = *--range;
    if (base >= end || bytes > end - base) return false;
    ranges_.erase(range);
    if (begin < base) ranges_[begin] = base;
    if (base + bytes < end) ranges_[base + bytes] = end;
    return true;
  }

  void give(std::uintptr_t base, std::size_t bytes) {
    std::uintptr_t end = base + bytes;
    const auto next = ranges_.find(end);
    if (next != ranges_.end()) {
      end = next->second;
      ranges_.erase(next);
    }
    const auto after = ranges_.lower_bound(base);
    if (after != ranges_.begin() && std::prev(after)->second == base) {
      std::prev(after)->second = end;
    } else {
      ranges_[base] = end;
    }
  }

 private:
  std::map<std::uintptr_t, std::uintptr_t> ranges_;  // begin to end
};

}  // namespace ph
