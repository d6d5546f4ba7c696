// How busy links are, and which holds a flow up: the arithmetic under sim_server/network/link_use.py.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/common.h"
#include "network/max_min.h"

namespace ph {

// What flows make of the links of one class, those without flows left out.
struct ClassLoad {
  std::uint32_t link_class;
  double share;  // of all their capacity
  double most;   // of the most used one's
  Index link;    // which that is

  auto operator<=>(const ClassLoad&) const = default;
};
using Load = std::vector<ClassLoad>;  // in the order of the classes

// Of the link of a flow's path that is most used: the share in use, and its class, or channels if it is not full.
struct Tightness {
  double share = -1;
  std::uint32_t limit = 0;

  auto operator<=>(const Tightness&) const = default;
};

// From when to when links were loaded so; `load` numbers the loads in the order in which they were first taken.
struct UseRow {
  Nanoseconds begin_ns;
  Nanoseconds end_ns;
  std::uint32_t load;
};

class LinkUse {
 public:
  // `class_of`: of each link. `channels`: the class that stands for no link.
  LinkUse(std::vector<double> capacities, std::vector<std::uint32_t> class_of, std::uint32_t channels);

  // Of claims at these rates, of which each stands for so many flows.
  Load measure(const std::vector<Claim>& claims, const std::vector<double>& rates,
               const std::vector<std::uint32_t>& flows);
  // Of a claim that was measured last.
  Tightness tightness(const Claim& claim) const;

  std::uint32_t classes() const { return classes_; }

  // `alike`: how many parts of the network were loaded so, with this one.
  void note(Nanoseconds begin_ns, Nanoseconds end_ns, Load load, std::uint32_t alike) {
    rows_.push_back({begin_ns, end_ns, std::move(load), alike});
  }
  std::size_t size() const { return rows_.size(); }

  struct Taken {
    std::vector<UseRow> rows;
    std::vector<Load> fresh;  // loads of numbers that no row had before
  };
  // The rows that ended before a time, in an order that does not depend on that of their being noted. Those that differ
  // in their links alone are one, whose shares are those of all; a folded run has thousands.
  Taken take(Nanoseconds before_ns);

 private:
  struct Row {
    Nanoseconds begin_ns;
    Nanoseconds end_ns;
    Load load;
    std::uint32_t alike;

    bool is_like(const Row& other) const;
  };

  std::vector<double> capacities_;
  std::vector<std::uint32_t> class_of_;
  std::uint32_t channels_;
  std::uint32_t classes_;
  std::vector<double> capacity_of_;  // by class
  std::vector<double> shares_;       // by link, of what was measured last
  std::vector<Index> used_;          // the links that have flows
  std::vector<double> totals_;       // by class, of what is measured
  std::vector<Index> most_;          // likewise: the link that is most used
  std::vector<Row> rows_;
  std::map<Load, std::uint32_t> numbers_;
  std::uint32_t numbered_ = 0;
};

}  // namespace ph
