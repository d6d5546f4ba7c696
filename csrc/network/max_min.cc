#include "network/max_min.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace ph {

namespace {

// As _TOGETHER in sim_server/network/maxmin.py.
constexpr double kTogether = 1 + 1e-12;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

const std::vector<double>& MaxMin::solve(const std::vector<double>& capacities, const std::vector<Claim>& claims) {
  prepare(capacities, claims);
  auto next = by_cap_.begin();
  while (next != by_cap_.end()) {
    const double level = least_level();
    if (claims[*next].cap <= level) {
      for (; next != by_cap_.end() && claims[*next].cap <= level; ++next)
        if (growing_[*next]) stop(claims[*next], *next, claims[*next].cap);
    } else {
      fill(claims, level);
    }
    push_touched();
    while (next != by_cap_.end() && !growing_[*next]) ++next;
  }
  for (const Room& room : rooms_) number_of_[room.link] = kNone;
  return rates_;
}

void MaxMin::prepare(const std::vector<double>& capacities, const std::vector<Claim>& claims) {
  rooms_.clear();
  for (const Claim& claim : claims) {
    require(!claim.path.empty() || claim.cap < kInfinite, "a flow without links and without a cap has no rate");
    for (const Hop& hop : claim.path) {
      Index& number = number_of_[hop.link];
      if (number == kNone) {
        number = static_cast<Index>(rooms_.size());
        rooms_.push_back({hop.link, capacities[hop.link]});
      }
      rooms_[number].growing += hop.flows;
      ++rooms_[number].claims;
    }
  }
  Index first = 0;
  levels_.clear();
  for (Room& room : rooms_) {
    room.first = first;
    first += room.claims;
    room.claims = 0;
    levels_.emplace_back(room.level(), static_cast<Index>(levels_.size()));
  }
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  claims_on_.resize(first);
  for (Index number = 0; number < claims.size(); ++number)
    for (const Hop& hop : claims[number].path) {
      Room& room = rooms_[number_of_[hop.link]];
      claims_on_[room.first + room.claims++] = number;
    }
  rates_.assign(claims.size(), 0);
  growing_.assign(claims.size(), true);
  by_cap_.resize(claims.size());
  std::iota(by_cap_.begin(), by_cap_.end(), Index{0});
  // Without a cap their order decides nothing: links stop them.
  const auto capped =
      std::partition(by_cap_.begin(), by_cap_.end(), [&](Index number) { return claims[number].cap < kInfinite; });
  std::sort(by_cap_.begin(), capped, [&](Index one, Index other) {
    return claims[one].cap != claims[other].cap ? claims[one].cap < claims[other].cap : one > other;
  });
}

double MaxMin::least_level() {
  while (!levels_.empty()) {
    const auto [level, number] = levels_.front();
    if (rooms_[number].growing > 0 && rooms_[number].level() == level) return level;
    std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
    levels_.pop_back();
  }
  return kInfinite;
}

// Stops what grows on the links that are full at this level.
void MaxMin::fill(const std::vector<Claim>& claims, double level) {
  full_.clear();
  while (least_level() <= level * kTogether) {
    full_.push_back(levels_.front().second);
    std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
    levels_.pop_back();
  }
  std::sort(full_.begin(), full_.end());
  for (const Index number : full_) {
    const Room& room = rooms_[number];
    for (Index at = room.first; at < room.first + room.claims; ++at)
      if (growing_[claims_on_[at]]) stop(claims[claims_on_[at]], claims_on_[at], level);
  }
}

void MaxMin::stop(const Claim& claim, Index number, double rate) {
  growing_[number] = false;
  rates_[number] = rate;
  for (const Hop& hop : claim.path) {
    Room& room = rooms_[number_of_[hop.link]];
    room.left = std::max(room.left - rate * hop.flows, 0.0);
    room.growing -= hop.flows;
    if (!room.touched) {
      room.touched = true;
      touched_.push_back(number_of_[hop.link]);
    }
  }
}

void MaxMin::push_touched() {
  for (const Index number : touched_) {
    rooms_[number].touched = false;
    if (rooms_[number].growing == 0) continue;
    levels_.emplace_back(rooms_[number].level(), number);
    std::push_heap(levels_.begin(), levels_.end(), std::greater<>());
  }
  touched_.clear();
}

}  // namespace ph
