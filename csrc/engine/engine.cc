#include "engine/engine.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace ph {

namespace {

// Helper threads that wake now and then would keep a deadlocked program running for ever (assumed: no program waits
// for one of them that long while all else stands still).
constexpr std::uint32_t kMostAlarmsInVain = 1000;

const Gpu& checked(const Gpu& gpu) {
  if (gpu.sm_count == 0) throw std::invalid_argument("a device needs a multiprocessor");
  const auto check_rate = [](const Rate& rate) {
    if (rate.latency_ns < 0 || rate.latency_ns > kLatest || rate.bytes_per_s < 1)
      throw std::invalid_argument("a copy rate is out of range");
  };
  check_rate(gpu.fill);
  for (const auto& kind : gpu.copy)
    for (const auto& rate : kind)
      if (rate) check_rate(*rate);
  return gpu;
}

const Settings& checked(const Settings& settings) {
  if (settings.live.empty()) throw std::invalid_argument("an engine needs a rank");
  if (!std::ranges::is_sorted(settings.live, std::less_equal{}) || settings.live.back() >= settings.ranks)
    throw std::invalid_argument("the ranks that are fed are listed in order");
  checked(settings.gpu);
  return settings;
}

}  // namespace

Engine::Engine(const Settings& settings)
    : world_(checked(settings)), ranks_(settings.ranks), live_(settings.live), inbox_(settings.ranks) {
  for (const Index rank : live_) ranks_[rank] = std::make_unique<Rank>(rank, world_);
}

Rank& Engine::rank(std::uint32_t index) const {
  if (index >= ranks_.size() || !ranks_[index])
    throw std::invalid_argument("there is no rank " + std::to_string(index));
  return *ranks_[index];
}

void Engine::schedule(std::uint32_t index) { inbox_.update(index, ranks_[index]->next_moment()); }

std::vector<Announcement> Engine::feed(std::uint32_t index, std::string_view cells, Nanoseconds host_clock_ns) {
  Rank& fed = rank(index);
  try {
    std::vector<Announcement> announcements = fed.feed(cells, host_clock_ns);
    schedule(index);
    return announcements;
  } catch (const BrokenInvariant& broken) {
    throw BrokenInvariant(std::string(broken.what()) + "\n" + fed.last_records());
  }
}

void Engine::set_duration(std::uint32_t index, std::uint32_t signature, Nanoseconds duration_ns, double sm_demand,
                          std::uint32_t timing_index) {
  rank(index).set_duration(signature, duration_ns, sm_demand, timing_index);
}

void Engine::set_gpu(std::uint32_t index, const Gpu& gpu) { rank(index).set_gpu(checked(gpu)); }

void Engine::define_communicator(std::uint32_t comm, const std::vector<Member>& members) {
  std::vector<Member> known = members;
  for (Member& member : known) {
    if (member.rank >= ranks_.size()) throw std::invalid_argument("there is no rank " + std::to_string(member.rank));
    member.present = ranks_[member.rank] != nullptr;
  }
  world_.operations.define(comm, std::move(known));
}

void Engine::answer(std::uint32_t index, std::uint32_t slot, ReplyStatus status, Nanoseconds time_ns) {
  rank(index).answer(slot, status, time_ns);
}

void Engine::finish(std::uint64_t operation, const std::vector<Nanoseconds>& ends_ns) {
  const Operation* ready = world_.operations.find_ready(operation);
  if (!ready) throw std::invalid_argument("operation " + std::to_string(operation) + " is not under way");
  if (ends_ns.size() != ready->participants.size())
    throw std::invalid_argument("operation " + std::to_string(operation) + " has " +
                                std::to_string(ready->participants.size()) + " participants");
  const Operation done = world_.operations.take(operation);
  const std::uint32_t number = finished_operations_++;
  for (std::size_t i = 0; i < ends_ns.size(); ++i) {
    const Participant& part = done.participants[i];
    if (!part.present) continue;
    ranks_[part.rank]->end_operation(part, number, std::max(ends_ns[i], world_.now_ns));
    schedule(part.rank);
  }
}

void Engine::set_aside(std::uint32_t index, bool proven, bool awaits_values) {
  rank(index).set_aside(proven);
  schedule(index);
  std::erase(await_values_, index);
  if (awaits_values) await_values_.push_back(index);
}

// What it leaves behind (a connection that ends, a lock that is free) is noticed by others.
void Engine::exited(std::uint32_t index) {
  rank(index).exit();
  wake_outside();
}

void Engine::wake_outside() {
  ++world_.wakeups;
  for (const Index index : live_) {
    ranks_[index]->wake();
    schedule(index);
  }
}

// What it waits for may be among them, or follow from them: virtual time stays until it has resumed, or is found asleep
// again.
void Engine::wake_for_values() {
  ++world_.wakeups;
  for (const Index index : std::exchange(await_values_, {})) {
    ranks_[index]->wake();
    schedule(index);
  }
}

// At the bound itself, only what no other rank can see: equal ranks wait at equal times, and would otherwise be
// answered one by one, each when the one before has moved on. Acts outside happen one by one, in order of time and
// rank: each when no rank that precedes is left at its time.
bool Engine::is_open(Nanoseconds time_ns, Nanoseconds bound_ns) const {
  if (inbox_.first_phase() != Phase::Issue) return time_ns <= bound_ns;
  if (time_ns < bound_ns) return true;
  const Index first = inbox_.first();
  if (time_ns > bound_ns || !ranks_[first]->acts_next()) return false;
  for (const Index other : live_) {
    if (other >= first) break;
    if (ranks_[other]->liveness().runs() && ranks_[other]->guarantee_ns() <= time_ns) return false;
  }
  return true;
}

// Nobody but helper threads with time-outs has had anything to do for long, and everybody waits for the engine.
bool Engine::rings_in_vain(Nanoseconds limit_ns, Nanoseconds bound_ns) const {
  return limit_ns == kNever && bound_ns == kNever && world_.alarms_in_a_row >= kMostAlarmsInVain &&
         ranks_[inbox_.first()]->rings_next() && outside_ranks().empty();
}

Nanoseconds Engine::bound_ns() const {
  Nanoseconds bound_ns = kNever;
  for (const Index index : live_) {
    const Rank& rank = *ranks_[index];
    if (rank.liveness().runs()) bound_ns = std::min(bound_ns, rank.guarantee_ns());
  }
  return bound_ns;
}

std::optional<Nanoseconds> Engine::bound() const {
  const Nanoseconds bound = bound_ns();
  return bound == kNever ? std::nullopt : std::optional(bound);
}

std::optional<Nanoseconds> Engine::next_time() const {
  if (inbox_.empty()) return std::nullopt;
  return std::max(inbox_.first_ns(), world_.now_ns);
}

Stop Engine::advance(Nanoseconds limit_ns, bool inclusive) {
  Nanoseconds bound = bound_ns();
  while (!inbox_.empty()) {
    const Nanoseconds time_ns = std::max(inbox_.first_ns(), world_.now_ns);
    if (!is_open(time_ns, bound) || time_ns > limit_ns || (time_ns == limit_ns && !inclusive)) break;
    if (rings_in_vain(limit_ns, bound)) break;
    world_.now_ns = time_ns;
    const Index first = inbox_.first();
    Rank& rank = *ranks_[first];
    try {
      rank.process();
    } catch (const BrokenInvariant& broken) {
      throw BrokenInvariant(std::string(broken.what()) + "\n" + rank.last_records());
    }
    schedule(first);
    if (std::exchange(world_.sends_values, false) && !await_values_.empty()) {
      wake_for_values();
      bound = bound_ns();
    }
    if (world_.stop.needs_server()) return take_stop();
    if (std::exchange(world_.acts, false)) {
      wake_outside();
      bound = bound_ns();
    }
    if (rank.liveness().runs()) bound = std::min(bound, rank.guarantee_ns());  // it may have been answered
  }
  const Nanoseconds reached_ns = std::min(limit_ns, bound);
  if (reached_ns <= kLatest) world_.now_ns = std::max(world_.now_ns, reached_ns);
  return take_stop();
}

Stop Engine::take_stop() {
  Stop stop = std::exchange(world_.stop, {});
  stop.time_ns = world_.now_ns;
  return stop;
}

template <typename Predicate>
std::vector<std::uint32_t> Engine::ranks_that(Predicate holds) const {
  std::vector<std::uint32_t> found;
  for (const Index index : live_)
    if (holds(*ranks_[index])) found.push_back(index);
  return found;
}

std::uint32_t Engine::helper_waits() const {
  std::uint32_t waits = 0;
  for (const Index index : live_) waits += ranks_[index]->helper_waits();
  return waits;
}

std::vector<std::uint32_t> Engine::waiting_ranks() const {
  return ranks_that([](const Rank& rank) { return rank.liveness().waits(); });
}

std::vector<std::uint32_t> Engine::running_ranks() const {
  return ranks_that([](const Rank& rank) { return rank.liveness().runs(); });
}

std::vector<std::uint32_t> Engine::outside_ranks() const {
  return ranks_that([](const Rank& rank) { return rank.liveness().outside(); });
}

std::vector<std::uint32_t> Engine::unproven_ranks() const {
  return ranks_that([](const Rank& rank) { return rank.lacks_proof(); });
}

std::vector<std::uint32_t> Engine::alarmed_ranks() const {
  return ranks_that([](const Rank& rank) { return rank.alarmed(); });
}

std::vector<std::uint32_t> Engine::helpers_run_ranks() const {
  return ranks_that(
      [](const Rank& rank) { return rank.liveness().helpers_run() || rank.liveness().runs_beside_waits(); });
}

std::vector<HostWait> Engine::host_waits() const {
  std::vector<HostWait> waits;
  for (const Index index : live_) ranks_[index]->add_host_waits(waits);
  return waits;
}

std::vector<Span> Engine::take_spans() { return std::exchange(world_.spans, {}); }
std::vector<ScopeChange> Engine::take_scopes() { return std::exchange(world_.scopes, {}); }

}  // namespace ph
