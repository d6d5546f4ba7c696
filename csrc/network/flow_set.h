// The flows under way: their rates, what is left of them, and when they end.
//
// Time is told by who calls. Changes of one instant are gathered: `settle` gives every flow that they can reach its new
// rate, which are those connected to a changed link by shared links, however indirectly.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "engine/pool.h"
#include "network/link_use.h"
#include "network/max_min.h"
#include "network/settling.h"

namespace ph {

// What a flow asks of the network.
struct Demand {
  std::vector<Hop> path;
  double size_bytes;
  double cap_bytes_per_s;
  std::uint32_t flows;  // for which it stands
};

// Flows that started together have ended.
struct EndedBatch {
  Index batch;  // its number, which may be given to another now
  std::vector<Nanoseconds> ends_ns;
  std::vector<Nanoseconds> limits_ns;  // by class of links: how long it held the flows up; empty if that is not watched
};

class FlowSet {
 public:
  // `use`: watches how busy links are, if it is there. `settling`: rates take time to change, likewise.
  FlowSet(std::vector<double> capacities_bytes_per_s, std::shared_ptr<LinkUse> use, std::optional<Settling> settling);

  // Starts flows, of which those without bytes end at once, but not all of them. Returns the number of their batch.
  // `alike`: how many batches it stands for, with itself; nothing else uses the links of any of these.
  Index start(Nanoseconds now_ns, std::vector<Demand> demands, std::uint32_t alike = 1);

  // Flows of a batch that stand for several are taken apart: each of `paths`, by the flow's place in its batch, goes on
  // as the flow that stood for it.
  void split(Nanoseconds now_ns, Index batch, const std::vector<std::vector<std::vector<Hop>>>& paths);

  // Batches for which one stands go on by themselves, as it would have: `paths` are those of each, by the flow's place in
  // its batch. Returns their numbers.
  std::vector<Index> separate(Nanoseconds now_ns, Index batch, const std::vector<std::vector<std::vector<Hop>>>& paths);

  void set_capacity(Index link, double capacity_bytes_per_s);

  // Gives the flows that changes can reach their rates from now on.
  void settle(Nanoseconds now_ns);

  // The next time at which flows end, as far as changes have settled; kNever if there is none.
  Nanoseconds next_end_ns();

  // Ends the flows whose time has come: the batches that ended with them; nothing if there were no such flows.
  std::optional<std::vector<EndedBatch>> end_due(Nanoseconds now_ns);

  bool is_idle(Index link) const { return on_link_[link].empty(); }
  std::vector<double> rates(Index link) const;  // of the flows on a link, in the order in which they started

 private:
  struct Flow {
    std::uint64_t number = 0;  // in the order in which they started
    Demand demand;
    Index batch;
    Index position;  // in the batch
    double left_bytes;
    double rate = 0;
    double excess = 0;  // over that rate at since_ns, where rates settle
    Nanoseconds since_ns = 0;  // when what is left was known
    Nanoseconds end_ns = kNever;
    Index stretch = kNone;
    std::uint64_t reached = 0;  // by the component of this number
  };
  struct Batch {
    std::vector<Nanoseconds> ends_ns;
    std::vector<Nanoseconds> limits_ns;
    std::vector<Index> flows;  // by position, kNone when they are over
    std::size_t running = 0;
    std::uint32_t alike = 1;  // batches for which it stands, with itself
    std::uint64_t reached = 0;  // by the component of this number, in whose stretch it has this place
    std::size_t place = 0;
  };
  // Flows that share links, from one change of their rates to the next.
  struct Stretch {
    Nanoseconds begin_ns = 0;
    Nanoseconds next_end_ns = kNever;
    bool is_left = false;  // its flows have ended, or get into another when changes settle
    std::vector<Index> flows = {};
    Load load = {};  // empty: nothing is to be noted
    std::uint32_t alike = 1;
    std::vector<std::pair<Index, Tightness>> tightest = {};  // by batch
  };
  using End = std::pair<Nanoseconds, Index>;  // of flows of a stretch

  Index add(Flow flow);
  void remove(Index flow, Nanoseconds now_ns);
  void gather(Index link);
  void reach(Index link);
  void apply(Nanoseconds now_ns);
  void measure(Stretch& stretch, const std::vector<double>& rates);
  bool settles() const;
  void set_rate(Flow& flow, double rate, Nanoseconds now_ns, bool settles) const;
  void begin(Stretch stretch);
  void leave(Index stretch, Nanoseconds now_ns);

  std::vector<double> capacities_;
  std::shared_ptr<LinkUse> use_;
  std::optional<Settling> settling_;
  MaxMin solver_;
  Pool<Flow> flows_;
  Pool<Batch> batches_;
  Pool<Stretch> stretches_;
  std::vector<std::vector<Index>> on_link_;
  std::vector<Index> changed_;
  std::uint64_t started_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<Index> left_;  // stretches that can go when changes have settled

  // Of the component at hand: flows that are connected. They are numbered.
  std::uint64_t component_ = 0;
  std::vector<std::uint64_t> link_reached_;
  std::vector<Index> found_;
  std::vector<Claim> claims_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace ph
