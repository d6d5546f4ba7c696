#include "shim/core/event_progress.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "shim/core/rank.h"

namespace ph {

namespace {

struct Known {
  std::uint64_t done = 0;  // instance
  std::uint64_t pending = 0;
  std::uint64_t pending_until_ns = 0;
};

// Never destroyed: the program may still ask while static destructors run.
struct Knowledge {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Known> streams;
};
Knowledge& of_drivers = *new Knowledge;
Knowledge& of_helpers = *new Knowledge;

// Stream ids are never used again, except 0, which every device has.
std::uint64_t key(StreamRef stream) noexcept { return std::uint64_t{stream.device} << 32 | stream.id; }

EventProgress look_up(Knowledge& knowledge, StreamRef stream, std::uint64_t instance) noexcept {
  const std::lock_guard lock(knowledge.mutex);
  const Known& known = knowledge.streams[key(stream)];
  if (instance <= known.done) return EventProgress::Done;
  const bool pending = known.pending != 0 && instance >= known.pending && host_clock_ns() < known.pending_until_ns;
  return pending ? EventProgress::Pending : EventProgress::Unknown;
}

Knowledge& mine() noexcept { return is_driver() ? of_drivers : of_helpers; }

}  // namespace

EventProgress event_progress(StreamRef stream, std::uint64_t instance) noexcept {
  const EventProgress progress = look_up(of_drivers, stream, instance);
  if (progress != EventProgress::Unknown || is_driver()) return progress;
  return look_up(of_helpers, stream, instance);
}

void learn_done(StreamRef stream, std::uint64_t instance) noexcept {
  Knowledge& knowledge = mine();
  const std::lock_guard lock(knowledge.mutex);
  Known& known = knowledge.streams[key(stream)];
  known.done = std::max(known.done, instance);
}

void learn_pending(StreamRef stream, std::uint64_t instance, std::uint64_t time_ns) noexcept {
  Knowledge& knowledge = mine();
  const std::lock_guard lock(knowledge.mutex);
  Known& known = knowledge.streams[key(stream)];
  known.pending = instance;
  known.pending_until_ns = time_ns;
}

}  // namespace ph
