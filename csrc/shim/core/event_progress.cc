#include "shim/core/event_progress.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shim/core/rank.h"

namespace ph {

namespace {

// `instance` and later ones are not done before `until_ns`.
struct Pending {
  std::uint64_t instance;
  std::uint64_t until_ns;
};

struct Known {
  std::uint64_t done = 0;        // instance
  std::vector<Pending> pending;  // few: a program polls its oldest event and perhaps its newest
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
  const std::uint64_t now_ns = host_clock_ns();
  const bool pending = std::any_of(known.pending.begin(), known.pending.end(), [=](const Pending& one) {
    return one.instance <= instance && now_ns < one.until_ns;
  });
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
  auto& pending = knowledge.streams[key(stream)].pending;
  const std::uint64_t now_ns = host_clock_ns();
  std::erase_if(pending, [=](const Pending& one) { return one.until_ns <= now_ns; });
  if (time_ns > now_ns) pending.push_back({instance, time_ns});
}

}  // namespace ph
