// The one order of everything: a heap of ranks by (time, round, phase, rank) of their next event. The order within a
// rank is the rank's own (see Rank::find_next). So equal inputs give one history, however they were delivered.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "engine/common.h"

namespace ph {

class Inbox {
 public:
  explicit Inbox(std::size_t ranks) : order_(ranks), heap_(ranks), position_(ranks) {
    for (Index rank = 0; rank < ranks; ++rank) heap_[rank] = position_[rank] = rank;
  }

  Index first() const { return heap_[0]; }
  bool empty() const { return first_ns() == kNever; }
  Nanoseconds first_ns() const { return order_[heap_[0]].time_ns; }
  Phase first_phase() const { return order_[heap_[0]].phase; }

  void update(Index rank, const Moment& moment) {
    order_[rank] = moment;
    sift_down(sift_up(position_[rank]));
  }

 private:
  bool before(Index a, Index b) const { return std::tie(order_[a], a) < std::tie(order_[b], b); }

  void exchange(std::size_t a, std::size_t b) {
    std::swap(heap_[a], heap_[b]);
    position_[heap_[a]] = static_cast<Index>(a);
    position_[heap_[b]] = static_cast<Index>(b);
  }

  std::size_t sift_up(std::size_t at) {
    while (at > 0 && before(heap_[at], heap_[(at - 1) / 2])) {
      exchange(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
    return at;
  }

  void sift_down(std::size_t at) {
    while (true) {
      std::size_t least = at;
      for (std::size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child)
        if (before(heap_[child], heap_[least])) least = child;
      if (least == at) return;
      exchange(at, least);
      at = least;
    }
  }

  std::vector<Moment> order_;  // of the rank's next event; at kNever when it has none
  std::vector<Index> heap_;
  std::vector<Index> position_;
};

}  // namespace ph
