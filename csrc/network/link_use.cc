#include "network/link_use.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <tuple>

namespace ph {

namespace {

// Shares have six digits: what is nearer to full than that is full. Far above rounding, far below what is seen. Those that
// add up have three more until they do.
double rounded(double share, double digits = 1e6) { return std::nearbyint(share * digits) / digits; }
constexpr double kToAdd = 1e9;

// The share of a link without flows.
constexpr double kUnused = -1;

// Loads whose numbers are remembered; beyond that many some are in the table twice.
constexpr std::size_t kKnown = 4096;

// What two loads are compared by that may be of different links.
auto but_link(const ClassLoad& one) { return std::tie(one.link_class, one.share, one.most); }

auto compare_but_links(const Load& a, const Load& b) {
  return std::lexicographical_compare_three_way(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const ClassLoad& one, const ClassLoad& other) { return but_link(one) <=> but_link(other); });
}

}  // namespace

bool LinkUse::Row::is_like(const Row& other) const {
  return begin_ns == other.begin_ns && end_ns == other.end_ns && compare_but_links(load, other.load) == 0;
}

LinkUse::LinkUse(std::vector<double> capacities, std::vector<std::uint32_t> class_of, std::uint32_t channels)
    : capacities_(std::move(capacities)), class_of_(std::move(class_of)), channels_(channels) {
  require(capacities_.size() == class_of_.size(), "every link has a class");
  const auto last = std::max_element(class_of_.begin(), class_of_.end());
  classes_ = std::max(channels, last == class_of_.end() ? 0 : *last) + 1;
  capacity_of_.resize(classes_);
  for (Index link = 0; link < capacities_.size(); ++link) capacity_of_[class_of_[link]] += capacities_[link];
  shares_.assign(capacities_.size(), kUnused);
}

Load LinkUse::measure(const std::vector<Claim>& claims, const std::vector<double>& rates,
                      const std::vector<std::uint32_t>& flows) {
  for (const Index link : used_) shares_[link] = kUnused;
  used_.clear();
  totals_.assign(classes_, 0);
  for (std::size_t i = 0; i < claims.size(); ++i)
    for (const Hop& hop : claims[i].path) {
      if (shares_[hop.link] < 0) {
        used_.push_back(hop.link);
        shares_[hop.link] = 0;
      }
      shares_[hop.link] += rates[i] * hop.flows;
      totals_[class_of_[hop.link]] += rates[i] * flows[i];
    }
  most_.assign(classes_, kNone);
  for (const Index link : used_) {
    shares_[link] = rounded(shares_[link] / capacities_[link]);
    Index& most = most_[class_of_[link]];
    // Of several that are used alike the first.
    if (most == kNone || shares_[link] > shares_[most] || (shares_[link] == shares_[most] && link < most)) most = link;
  }
  Load load;
  for (std::uint32_t one = 0; one < classes_; ++one)
    if (const Index most = most_[one]; most != kNone)
      load.push_back({one, rounded(totals_[one] / capacity_of_[one], kToAdd), shares_[most], most});
  return load;
}

Tightness LinkUse::tightness(const Claim& claim) const {
  Index tightest = claim.path[0].link;
  for (const Hop& hop : claim.path)
    if (shares_[hop.link] > shares_[tightest]) tightest = hop.link;
  return {shares_[tightest], shares_[tightest] >= 1 ? class_of_[tightest] : channels_};
}

LinkUse::Taken LinkUse::take(Nanoseconds before_ns) {
  const auto later = std::partition(rows_.begin(), rows_.end(), [&](const Row& row) { return row.end_ns < before_ns; });
  std::sort(rows_.begin(), later, [](const Row& a, const Row& b) {
    if (const auto order = std::tie(a.begin_ns, a.end_ns) <=> std::tie(b.begin_ns, b.end_ns); order != 0)
      return order < 0;
    const auto order = compare_but_links(a.load, b.load);
    return order != 0 ? order < 0 : a.load < b.load;
  });
  Taken taken;
  for (auto row = rows_.begin(), next = row; row != later; row = next) {
    double alike = 0;
    for (; next != later && row->is_like(*next); ++next) alike += next->alike;
    for (ClassLoad& one : row->load) one.share = rounded(one.share * alike);
    auto known = numbers_.find(row->load);
    if (known == numbers_.end()) {
      if (numbers_.size() >= kKnown) numbers_.clear();
      known = numbers_.emplace(row->load, numbered_++).first;
      taken.fresh.push_back(std::move(row->load));
    }
    taken.rows.push_back({row->begin_ns, row->end_ns, known->second});
  }
  rows_.erase(rows_.begin(), later);
  return taken;
}

}  // namespace ph
