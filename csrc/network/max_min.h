// Max-min fair rates by progressive filling: what sim_server/network/maxmin.py defines, to the last bit.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/common.h"

namespace ph {

// A link of a flow's path.
struct Hop {
  Index link;
  std::uint32_t flows = 1;  // it carries, of a flow that stands for several
  Index place = 0;          // of the flow among those on the link, for who keeps them
};

// What the rate of a flow depends on.
struct Claim {
  std::span<const Hop> path;
  double cap;
};

class MaxMin {
 public:
  explicit MaxMin(std::size_t links) : number_of_(links, kNone) {}

  // The rate of each claim; good until the next call. A claim without a path needs a finite cap.
  //
  // The order of claims decides nothing if each counts once: those that stop together take the same from a link, one
  // after the other.
  const std::vector<double>& solve(const std::vector<double>& capacities, const std::vector<Claim>& claims);

 private:
  struct Room {
    Index link;
    double left;
    std::uint32_t growing = 0;  // flows that are not at their rate yet
    Index first = 0;            // of its claims in claims_on_
    Index claims = 0;
    bool touched = false;

    double level() const { return left / growing; }
  };
  using Level = std::pair<double, Index>;  // at which a room is full, and which; the least on top

  void prepare(const std::vector<double>& capacities, const std::vector<Claim>& claims);
  double least_level();
  void fill(const std::vector<Claim>& claims, double level);
  void stop(const Claim& claim, Index number, double rate);
  void push_touched();

  std::vector<Index> number_of_;  // of a link's room, kNone between calls
  std::vector<Room> rooms_;       // of the links that are used, in the order in which the claims name them
  std::vector<Index> claims_on_;
  std::vector<Index> by_cap_;
  std::vector<double> rates_;
  std::vector<char> growing_;  // by claim
  std::vector<Level> levels_;  // a heap; what is no longer so in it is skipped
  std::vector<Index> touched_;
  std::vector<Index> full_;
};

}  // namespace ph
