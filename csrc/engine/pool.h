// Objects addressed by index, with a free list: items live for microseconds of our time, and there are millions.
#pragma once

#include <utility>
#include <vector>

#include "engine/common.h"

namespace ph {

// A reference into the pool is good until the next `add`.
template <typename T>
class Pool {
 public:
  Index add(T value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return static_cast<Index>(values_.size() - 1);
    }
    const Index index = free_.back();
    free_.pop_back();
    values_[index] = std::move(value);
    return index;
  }

  void remove(Index index) { free_.push_back(index); }

  T& operator[](Index index) { return values_[index]; }
  const T& operator[](Index index) const { return values_[index]; }

  std::size_t slots() const { return values_.size(); }
  const std::vector<Index>& free_slots() const { return free_; }

 private:
  std::vector<T> values_;
  std::vector<Index> free_;
};

}  // namespace ph
