#include "network/flow_set.h"

#include <algorithm>
#include <cmath>

namespace ph {

namespace {

// Ends are computed in floating point and rounded up once. One that is after a whole nanosecond only by rounding must
// not become one nanosecond more. What is left of a flow is known to 2**-52 or so of its size per change of its rate,
// so this part of its size is forgiven: it takes less than one nanosecond for flows of up to an hour.
constexpr double kForgiven = 0x1p-42;

// Of flows that are not over.
constexpr Nanoseconds kRuns = -1;

}  // namespace

FlowSet::FlowSet(std::vector<double> capacities_bytes_per_s, std::shared_ptr<LinkUse> use,
                 std::optional<Settling> settling)
    : capacities_(std::move(capacities_bytes_per_s)),
      use_(std::move(use)),
      settling_(std::move(settling)),
      solver_(capacities_.size()),
      on_link_(capacities_.size()),
      link_reached_(capacities_.size()) {}

Index FlowSet::start(Nanoseconds now_ns, std::vector<Demand> demands, std::uint32_t alike) {
  Batch batch;
  batch.alike = alike;
  batch.ends_ns.assign(demands.size(), now_ns);
  batch.flows.assign(demands.size(), kNone);
  if (use_) batch.limits_ns.resize(use_->classes());
  const Index number = batches_.add(std::move(batch));
  for (Index position = 0; position < demands.size(); ++position) {
    Demand& demand = demands[position];
    if (demand.size_bytes <= 0) continue;
    require(!demand.path.empty(), "a flow needs a link: a copy inside a GPU is not a flow");
    for (const Hop& hop : demand.path) require(hop.link < capacities_.size(), "a path has a link that does not exist");
    const double left_bytes = demand.size_bytes;
    const Index flow =
        add({.demand = std::move(demand), .batch = number, .position = position, .left_bytes = left_bytes});
    batches_[number].ends_ns[position] = kRuns;
    batches_[number].flows[position] = flow;
    ++batches_[number].running;
  }
  require(batches_[number].running > 0, "flows without bytes are none");
  return number;
}

void FlowSet::split(Nanoseconds now_ns, Index batch, const std::vector<std::vector<std::vector<Hop>>>& paths) {
  Stretch parts{.begin_ns = now_ns};
  for (Index position = 0; position < paths.size(); ++position) {
    const Index whole = batches_[batch].flows[position];
    if (whole == kNone) continue;
    for (const std::vector<Hop>& path : paths[position]) {
      Flow part = flows_[whole];
      part.demand.path = path;
      part.demand.flows = 1;
      part.stretch = kNone;
      parts.next_end_ns = std::min(parts.next_end_ns, part.end_ns);
      parts.flows.push_back(add(std::move(part)));
    }
    batches_[batch].flows[position] = kNone;
    batches_[batch].running += paths[position].size() - 1;
    remove(whole, now_ns);
  }
  begin(std::move(parts));
}

std::vector<Index> FlowSet::separate(Nanoseconds now_ns, Index batch,
                                     const std::vector<std::vector<std::vector<Hop>>>& paths) {
  Stretch parts{.begin_ns = now_ns};
  for (const Index own : batches_[batch].flows) {
    if (own == kNone) continue;
    if (flows_[own].stretch != kNone) leave(flows_[own].stretch, now_ns);
    changed_.push_back(flows_[own].demand.path[0].link);
    parts.next_end_ns = std::min(parts.next_end_ns, flows_[own].end_ns);
    parts.flows.push_back(own);
  }
  batches_[batch].alike = 1;
  std::vector<Index> numbers;
  for (const std::vector<std::vector<Hop>>& of_copy : paths) {
    Batch copy = batches_[batch];
    numbers.push_back(batches_.add(copy));
    for (Index position = 0; position < copy.flows.size(); ++position) {
      if (copy.flows[position] == kNone) continue;
      Flow flow = flows_[copy.flows[position]];
      flow.demand.path = of_copy.at(position);
      flow.batch = numbers.back();
      const Index index = add(std::move(flow));
      batches_[numbers.back()].flows[position] = index;
      parts.flows.push_back(index);
    }
  }
  begin(std::move(parts));
  return numbers;
}

void FlowSet::set_capacity(Index link, double capacity_bytes_per_s) {
  require(link < capacities_.size(), "a link does not exist");
  capacities_[link] = capacity_bytes_per_s;
  changed_.push_back(link);
}

void FlowSet::settle(Nanoseconds now_ns) {
  const std::uint64_t before = component_;
  for (const Index link : changed_)
    if (link_reached_[link] <= before && !on_link_[link].empty()) {
      gather(link);
      apply(now_ns);
    }
  changed_.clear();
  for (const Index stretch : left_) {
    stretches_[stretch].next_end_ns = kNever;
    stretches_.remove(stretch);
  }
  left_.clear();
}

Nanoseconds FlowSet::next_end_ns() {
  while (!ends_.empty() && stretches_[ends_.top().second].next_end_ns != ends_.top().first) ends_.pop();
  return ends_.empty() ? kNever : ends_.top().first;
}

std::optional<std::vector<EndedBatch>> FlowSet::end_due(Nanoseconds now_ns) {
  std::vector<Index> due;
  while (next_end_ns() <= now_ns) {
    const Index number = ends_.top().second;
    ends_.pop();
    stretches_[number].next_end_ns = kNever;
    for (const Index flow : stretches_[number].flows)
      if (flows_[flow].stretch == number && flows_[flow].end_ns <= now_ns) due.push_back(flow);
  }
  if (due.empty()) return std::nullopt;
  std::sort(due.begin(), due.end(), [&](Index one, Index other) { return flows_[one].number < flows_[other].number; });
  std::vector<EndedBatch> ended;
  for (const Index index : due) {
    const Flow& flow = flows_[index];
    const Index number = flow.batch;
    Batch& batch = batches_[number];
    batch.ends_ns[flow.position] = flow.end_ns;
    batch.flows[flow.position] = kNone;
    remove(index, now_ns);
    if (--batch.running == 0) {
      ended.push_back({number, std::move(batch.ends_ns), std::move(batch.limits_ns)});
      batches_.remove(number);
    }
  }
  return ended;
}

std::vector<double> FlowSet::rates(Index link) const {
  std::vector<Index> flows = on_link_[link];
  std::sort(flows.begin(), flows.end(),
            [&](Index one, Index other) { return flows_[one].number < flows_[other].number; });
  std::vector<double> rates;
  for (const Index flow : flows) rates.push_back(flows_[flow].rate);
  return rates;
}

Index FlowSet::add(Flow flow) {
  flow.number = started_++;
  const Index index = flows_.add(std::move(flow));
  for (Hop& hop : flows_[index].demand.path) {
    hop.place = static_cast<Index>(on_link_[hop.link].size());
    on_link_[hop.link].push_back(index);
  }
  changed_.push_back(flows_[index].demand.path[0].link);
  return index;
}

void FlowSet::remove(Index flow, Nanoseconds now_ns) {
  if (flows_[flow].stretch != kNone) leave(flows_[flow].stretch, now_ns);
  flows_[flow].stretch = kNone;
  for (const Hop& hop : flows_[flow].demand.path) {
    std::vector<Index>& on_link = on_link_[hop.link];
    const Index last = on_link.back();
    on_link[hop.place] = last;
    on_link.pop_back();
    for (Hop& of_last : flows_[last].demand.path)
      if (of_last.link == hop.link) of_last.place = hop.place;
    changed_.push_back(hop.link);
  }
  flows_.remove(flow);
}

// Finds the flows that are connected to a link.
void FlowSet::gather(Index link) {
  ++component_;
  found_.clear();
  reach(link);
  for (std::size_t at = 0; at < found_.size(); ++at)
    for (const Hop& hop : flows_[found_[at]].demand.path) reach(hop.link);
}

void FlowSet::reach(Index link) {
  if (link_reached_[link] == component_) return;
  link_reached_[link] = component_;
  for (const Index flow : on_link_[link])
    if (flows_[flow].reached != component_) {
      flows_[flow].reached = component_;
      found_.push_back(flow);
    }
}

// Gives the flows that were found their rates.
void FlowSet::apply(Nanoseconds now_ns) {
  claims_.clear();
  counts_.clear();
  bool stand_for_others = false;
  for (const Index flow : found_) stand_for_others |= flows_[flow].demand.flows > 1;
  if (stand_for_others)  // then their order enters the rounding
    std::sort(found_.begin(), found_.end(),
              [&](Index one, Index other) { return flows_[one].number < flows_[other].number; });
  for (const Index flow : found_) {
    const Demand& demand = flows_[flow].demand;
    claims_.push_back({demand.path, demand.cap_bytes_per_s});
    counts_.push_back(demand.flows);
  }
  const std::vector<double>& rates = solver_.solve(capacities_, claims_);
  Stretch stretch{.begin_ns = now_ns, .flows = found_, .alike = batches_[flows_[found_[0]].batch].alike};
  if (use_) measure(stretch, rates);
  const bool settle_slowly = settles();
  for (std::size_t i = 0; i < found_.size(); ++i) {
    Flow& flow = flows_[found_[i]];
    if (flow.stretch != kNone) leave(flow.stretch, now_ns);
    if (rates[i] != flow.rate) set_rate(flow, rates[i], now_ns, settle_slowly);
    stretch.next_end_ns = std::min(stretch.next_end_ns, flow.end_ns);
  }
  begin(std::move(stretch));
}

void FlowSet::measure(Stretch& stretch, const std::vector<double>& rates) {
  stretch.load = use_->measure(claims_, rates, counts_);
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const Tightness tightness = use_->tightness(claims_[i]);
    Batch& batch = batches_[flows_[found_[i]].batch];
    if (batch.reached != component_) {
      batch.reached = component_;
      batch.place = stretch.tightest.size();
      stretch.tightest.emplace_back(flows_[found_[i]].batch, tightness);
    } else {
      Tightness& known = stretch.tightest[batch.place].second;
      if (tightness > known) known = tightness;
    }
  }
}

// Whether the flows that were found approach their rates; on other links rates change at once.
bool FlowSet::settles() const {
  return settling_ && std::any_of(claims_.begin(), claims_.end(), [&](const Claim& claim) {
           return std::any_of(claim.path.begin(), claim.path.end(),
                              [&](const Hop& hop) { return settling_->links[hop.link]; });
         });
}

void FlowSet::set_rate(Flow& flow, double rate, Nanoseconds now_ns, bool settles) const {
  if (settling_) {
    const double seconds = static_cast<double>(now_ns - flow.since_ns) / 1e9;
    flow.left_bytes -= settling_->moved_bytes(flow.rate, flow.excess, seconds);
    flow.excess = settles ? flow.rate + settling_->left_of(flow.excess, seconds) - rate : 0;
  } else {
    flow.left_bytes -= flow.rate * static_cast<double>(now_ns - flow.since_ns) / 1e9;
  }
  flow.rate = rate;
  flow.since_ns = now_ns;
  flow.end_ns = kNever;
  if (rate == 0) return;
  const double left_bytes = flow.left_bytes - flow.demand.size_bytes * kForgiven;
  const double seconds = flow.excess == 0 ? left_bytes / rate : settling_->seconds_for(left_bytes, rate, flow.excess);
  const double rounded_up = std::ceil(seconds * 1e9);
  flow.end_ns = now_ns + static_cast<Nanoseconds>(std::clamp(rounded_up, 1.0, static_cast<double>(kLatest)));
}

void FlowSet::begin(Stretch stretch) {
  const Nanoseconds end_ns = stretch.next_end_ns;
  const Index number = stretches_.add(std::move(stretch));
  for (const Index flow : stretches_[number].flows) flows_[flow].stretch = number;
  if (end_ns != kNever) ends_.emplace(end_ns, number);
}

void FlowSet::leave(Index number, Nanoseconds now_ns) {
  Stretch& stretch = stretches_[number];
  if (stretch.is_left) return;
  stretch.is_left = true;
  left_.push_back(number);
  if (stretch.load.empty() || stretch.begin_ns == now_ns) return;
  use_->note(stretch.begin_ns, now_ns, std::move(stretch.load), stretch.alike);
  for (const auto& [batch, tightness] : stretch.tightest)
    batches_[batch].limits_ns[tightness.limit] += now_ns - stretch.begin_ns;
}

}  // namespace ph
