#include "shim/waiting/event_progress.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shim/channel/rank.h"
#include "shim/core/visible_devices.h"

namespace ph {

namespace {

// `instance` and later ones are not done before `until_ns`.
struct Pending {
  std::uint64_t instance;
  Nanoseconds until_ns;
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

// Stream ids are never used again, except 0, which every GPU has.
std::uint64_t key(std::uint32_t gpu, std::uint32_t stream) noexcept { return std::uint64_t{gpu} << 32 | stream; }

EventProgress look_up(Knowledge& knowledge, StreamRef stream, std::uint64_t instance) noexcept {
  const std::lock_guard lock(knowledge.mutex);
  const Known& known = knowledge.streams[key(node_gpu(stream.device), stream.id)];
  if (instance <= known.done) return EventProgress::Done;
  const Nanoseconds now_ns = host_clock_ns();
  const bool pending = std::any_of(known.pending.begin(), known.pending.end(), [=](const Pending& one) {
    return one.instance <= instance && now_ns < one.until_ns;
  });
  return pending ? EventProgress::Pending : EventProgress::Unknown;
}

void learn(Known& known, const EventNews& news, Nanoseconds now_ns) {
  known.done = std::max(known.done, news.done);
  std::erase_if(known.pending, [&](const Pending& one) {
    return one.until_ns <= now_ns || one.instance <= known.done || one.instance == news.pending;
  });
  if (news.pending != 0) known.pending.push_back({news.pending, news.not_before_ns});
}

}  // namespace

EventProgress event_progress(StreamRef stream, std::uint64_t instance) noexcept {
  const EventProgress progress = look_up(of_drivers, stream, instance);
  if (progress != EventProgress::Unknown || is_driver()) return progress;
  return look_up(of_helpers, stream, instance);
}

void learn_events(std::span<const unsigned char> news) noexcept {
  Knowledge& knowledge = is_driver() ? of_drivers : of_helpers;
  const std::lock_guard lock(knowledge.mutex);
  const Nanoseconds now_ns = host_clock_ns();
  for (; news.size() >= sizeof(EventNews); news = news.subspan(sizeof(EventNews))) {
    EventNews one;
    std::memcpy(&one, news.data(), sizeof one);
    learn(knowledge.streams[key(one.device, one.stream)], one, now_ns);
  }
}

}  // namespace ph
