// The streams of one rank, by CUDA's rules for ordering: a stream is a queue; the legacy default stream of a
// device also waits for its blocking streams, and they for it.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "engine/common.h"

namespace ph {

struct Stream {
  std::uint32_t id;  // as the rank knows it; 0: legacy default stream
  std::uint16_t device;
  bool blocking;     // takes part in the legacy stream's ordering
  bool destroyed;
  Index tail;        // last item that is not done, kNone when idle
  std::uint64_t done_event = 0;  // newest event instance that is done
  std::deque<std::uint64_t> pending_events{};  // instances
  Nanoseconds given_ns = 0;      // least duration of all work it was given
  Nanoseconds done_ns = 0;       // likewise of the work that is done
  Nanoseconds free_at_ns = 0;    // the rest begins no earlier than this
};

class Streams {
 public:
  // False when the rank already has, or does not have, such a stream.
  bool create(std::uint32_t id, std::uint16_t device, bool non_blocking);
  bool forget(std::uint32_t id);  // the name; its work goes on

  // Index of a stream; kNone when there is none. Legacy streams exist from their first use.
  Index find(std::uint32_t id, std::uint16_t device);

  Stream& operator[](Index stream) { return streams_[stream]; }
  const Stream& operator[](Index stream) const { return streams_[stream]; }

  // Its memory is used again once its work is done.
  void destroy(Index stream);
  void set_tail(Index stream, Index item) { streams_[stream].tail = item; }
  void item_done(Index stream, Index item);

  // Calls `visit` with the items that a synchronisation with `stream` waits for.
  template <typename Visit>
  void work(Index stream, Visit visit) const {
    const Stream& own = streams_[stream];
    if (own.tail != kNone) visit(own.tail);
    if (own.id != 0) return;
    for (const Index other : devices_[own.device].blocking)
      if (streams_[other].tail != kNone) visit(streams_[other].tail);
  }

  // Likewise with the items that the next item of `stream` waits for.
  template <typename Visit>
  void predecessors(Index stream, Visit visit) const {
    work(stream, visit);
    const Stream& own = streams_[stream];
    if (own.id == 0 || !own.blocking) return;
    const Index legacy = devices_[own.device].legacy;
    if (legacy != kNone && streams_[legacy].tail != kNone) visit(streams_[legacy].tail);
  }

  // Likewise with the unfinished items of all streams of a device.
  template <typename Visit>
  void tails(std::uint16_t device, Visit visit) const {
    if (device >= devices_.size()) return;
    for (const Index stream : devices_[device].all)
      if (streams_[stream].tail != kNone) visit(streams_[stream].tail);
  }

  // Likewise with the streams that have had an event.
  template <typename Visit>
  void with_events(Visit visit) const {
    for (const Stream& stream : streams_)
      if (stream.done_event != 0 || !stream.pending_events.empty()) visit(stream);
  }

  bool idle(Index stream) const {
    bool idle = true;
    work(stream, [&](Index) { idle = false; });
    return idle;
  }

 private:
  struct DeviceStreams {
    Index legacy = kNone;
    std::vector<Index> all;
    std::vector<Index> blocking;  // without the legacy stream
  };

  Index add(const Stream& stream);
  void release(Index stream);

  std::vector<Stream> streams_;
  std::vector<Index> free_;
  std::unordered_map<std::uint32_t, Index> by_id_;
  std::vector<DeviceStreams> devices_;
};

}  // namespace ph
