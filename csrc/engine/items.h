// The items of one rank's work and what each waits for: a directed acyclic graph that grows at the end and is
// freed at the front.
#pragma once

#include <vector>

#include "engine/common.h"
#include "engine/history.h"
#include "engine/pool.h"

namespace ph {

enum class ItemKind : std::uint8_t {
  Compute,      // takes multiprocessors: a kernel, a fill, a copy inside a device
  Transfer,     // takes a copy engine
  EventRecord,  // no time
  Order,        // no time: StreamWait, HostFunction
  Launch,       // an NCCL launch, ends when its operations do
  HostWait,     // no time: the rank is answered
};

struct Item {
  ItemKind kind;
  SpanKind span = SpanKind::None;
  std::uint8_t copy_engine = 0;
  std::uint16_t device = 0;
  Index stream = kNone;      // kNone: not in a stream
  std::uint32_t id = 0;      // as in Span
  std::uint32_t site = 0;
  std::uint32_t demand = 0;  // of Compute
  std::uint64_t value = 0;   // EventRecord: instance; Launch: index; HostWait: key
  std::uint64_t activity = 0;  // its number, where the rank asks when it ran
  Nanoseconds duration_ns = 0;
  Nanoseconds issue_ns = 0;
  Nanoseconds start_ns = 0;
  Nanoseconds stream_ns = 0;    // Stream::given_ns up to and with this item
  Nanoseconds earliest_ns = 0;  // cannot be done before, as known when it was added
  std::uint32_t unmet = 0;  // items it waits for
  Index first_dependent = kNone;
  Index last_dependent = kNone;
};

class Items {
 public:
  Index add(const Item& item) { return items_.add(item); }
  Item& operator[](Index item) { return items_[item]; }
  const Item& operator[](Index item) const { return items_[item]; }

  void depend(Index item, Index on) {
    const Index link = dependents_.add({item, kNone});
    Item& before = items_[on];
    if (before.first_dependent == kNone) before.first_dependent = link;
    else dependents_[before.last_dependent].next = link;
    before.last_dependent = link;
    ++items_[item].unmet;
  }

  // Frees a finished item; calls `ready` with those that waited only for it, in the order of their issue.
  template <typename ReadyVisit>
  void remove(Index item, ReadyVisit ready) {
    Index link = items_[item].first_dependent;
    while (link != kNone) {
      const Dependent dependent = dependents_[link];
      if (--items_[dependent.item].unmet == 0) ready(dependent.item);
      dependents_.remove(link);
      link = dependent.next;
    }
    items_.remove(item);
  }

  // When the oldest in a stream that is not done was issued; kNever if there is none. Slow: seldom asked.
  Nanoseconds oldest_issue_ns() const;

  // The running items that `item` waits for, directly or through others. Slow: for reports.
  std::vector<Index> running_before(Index item) const;

 private:
  struct Dependent {
    Index item;
    Index next;
  };

  Pool<Item> items_;
  Pool<Dependent> dependents_;
};

}  // namespace ph
