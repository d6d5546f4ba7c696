// What a rank asks, and when it is answered.
#include <utility>

#include "engine/names.h"
#include "engine/rank.h"

namespace ph {

bool Rank::is_query(WaitKind kind) {
  return kind == WaitKind::QueryStream || kind == WaitKind::QueryEvent || kind == WaitKind::Elapsed ||
         kind == WaitKind::Activities;
}

Rank::Wait* Rank::open_wait(std::uint64_t key) {
  Wait& wait = waits_[key % kReplySlots];
  return wait.open && wait.serial == key / kReplySlots ? &wait : nullptr;
}

const Rank::Event& Rank::event(std::uint64_t instance) const {
  static constexpr Event kUnrecordedEvent{};
  const auto found = events_.find(instance);
  return found == events_.end() ? kUnrecordedEvent : found->second;
}

// A wait that concerns this rank alone, as opposed to one that the server answers.
bool Rank::begins_local_wait(const Queued& record) {
  const auto kind = static_cast<WaitKind>(record.id);
  return record.kind == RecordKind::Wait && kind != WaitKind::CommInit && kind != WaitKind::CommSplit &&
         !acts_outside(record);
}

// A driver's wait that follows something issued at the same time; see docs/decisions/inbox-phases.md. How often a rank
// resumes, and what its helper threads ask, differs from run to run.
bool Rank::begins_round(const Queued& record) {
  return begins_local_wait(record) && (record.flags & kWaitBackground) == 0 &&
         record.id != static_cast<std::uint32_t>(WaitKind::Resume);
}

// Of a driver: what helper threads do is not in the queue.
bool Rank::acts_outside(const Queued& record) {
  return record.kind == RecordKind::Wait && record.id == static_cast<std::uint32_t>(WaitKind::Outside);
}

bool Rank::acts_next() const {
  return next_.source == Source::Record && queue_head_ < queue_.size() && acts_outside(queue_[queue_head_]);
}

void Rank::set_aside(bool proven) {
  liveness_.set_aside(proven);
  find_next();
}

void Rank::wake() {
  if (liveness_.wake(world_.now_ns)) find_next();
}

// The deadline of a thread has come. Whatever that thread and those that it sets going do, they do from now on: the
// rank counts as running until it is found still, also if it waits otherwise.
void Rank::ring_alarm() {
  alarms_.erase(alarms_.begin());
  world_.stop.answers.push_back(
      {rank_, alarm_slot_, WaitKind::Alarm, true, world_.now_ns, ReplyStatus::Done, world_.now_ns, 0, {}, {}});
  ++world_.wakeups;
  ++world_.alarms_in_a_row;
  liveness_.alarm(world_.now_ns);
}

void Rank::begin_wait(const Queued& record) {
  const std::uint64_t key = record.args[WaitArg::Slot];
  Wait* wait = open_wait(key);
  if (!wait) return;  // the server answered it early, to stop the rank
  wait->issue_ns = std::max(record.issue_ns, world_.now_ns);
  if (is_query(wait->kind)) {
    queries_.push_back({wait->issue_ns, key});
    return;
  }
  if (wait->kind == WaitKind::CommInit || wait->kind == WaitKind::CommSplit) {
    world_.stop.requests.push_back({rank_, wait->device, static_cast<std::uint32_t>(key % kReplySlots), wait->kind,
                                    wait->announces, wait->args, wait->site, world_.now_ns});
    return;
  }
  const Index item = items_.add({.kind = ItemKind::HostWait, .value = key, .issue_ns = wait->issue_ns});
  const auto depend = [&](Index on) { items_.depend(item, on); };
  if (wait->kind == WaitKind::Stream) {
    streams_.work(wait->stream, depend);
  } else if (wait->kind == WaitKind::Device) {
    streams_.tails(wait->device, depend);
  } else if (wait->kind == WaitKind::Event || wait->kind == WaitKind::LaunchQueue) {
    const Index recording = event(wait->args[EventWaitArg::Instance]).item;
    if (recording != kNone) depend(recording);
  } else if (wait->kind == WaitKind::Outside) {
    world_.acts = true;
  } else {
    liveness_.resume();  // it waits for nothing but the engine's time
  }
  wait->item = item;
  if (items_[item].unmet == 0) ready_.push_back(item);
}

void Rank::evaluate_query(const DueWait& question) {
  const Wait* wait = open_wait(question.key);
  if (!wait) return;
  std::uint64_t value = 0;
  const ReplyStatus status = query(*wait, false, value);
  reply(question.key, status, value);
}

// A background query is asked out of order: an event that was fed and not yet reached is not ready, and neither
// is a stream while records wait in the queue.
ReplyStatus Rank::query(const Wait& wait, bool background, std::uint64_t& value) const {
  const auto ready = [](bool is) { return is ? ReplyStatus::Done : ReplyStatus::NotReady; };
  if (wait.kind == WaitKind::Activities) {
    value = activities_.size() - std::min(activities_.size(), kActivitiesAtOnce);
    return ReplyStatus::Done;
  }
  if (wait.kind == WaitKind::QueryStream)
    return ready(streams_.idle(wait.stream) && !(background && queue_head_ < queue_.size()));
  const Event& first = event(wait.args[ElapsedWaitArg::First]);
  if (wait.kind == WaitKind::QueryEvent)
    return ready(first.item == kNone && !(background && first.time_ns == Event::kFed));
  const Event& second = event(wait.args[ElapsedWaitArg::Second]);
  if (first.time_ns < 0 || second.time_ns < 0) return ReplyStatus::NotReady;
  value = static_cast<std::uint64_t>(second.time_ns - first.time_ns);
  return ReplyStatus::Done;
}

// Of each stream its next event, and the event that was asked about.
std::vector<EventNews> Rank::news(const Wait& wait) const {
  constexpr std::size_t kMostStreams = 64;  // about the others the rank has to ask
  std::vector<EventNews> news;
  const auto add = [&](const Stream& stream, std::uint64_t pending) {
    const Index item = event(pending).item;
    const Nanoseconds not_before_ns = item == kNone ? 0 : earliest_end_ns(items_[item]);
    news.push_back({stream.id, stream.device, stream.done_event, pending, not_before_ns});
  };
  streams_.with_events([&](const Stream& stream) {
    if (news.size() < kMostStreams) add(stream, stream.pending_events.empty() ? 0 : stream.pending_events.front());
  });
  const Index asked = wait.kind == WaitKind::QueryEvent ? event(wait.args[QueryEventWaitArg::Instance]).item : kNone;
  if (asked != kNone) add(streams_[items_[asked].stream], wait.args[QueryEventWaitArg::Instance]);
  return news;
}

// In the order of their ends.
std::vector<ActivityTimes> Rank::take_activities() {
  const auto last = activities_.begin() + static_cast<std::ptrdiff_t>(std::min(activities_.size(), kActivitiesAtOnce));
  std::vector<ActivityTimes> taken(activities_.begin(), last);
  activities_.erase(activities_.begin(), last);
  return taken;
}

void Rank::reply(std::uint64_t key, ReplyStatus status, std::uint64_t value) {
  Wait* wait = open_wait(key);
  if (!wait) return;
  const auto slot = static_cast<std::uint32_t>(key % kReplySlots);
  const Nanoseconds time_ns = wait->background ? world_.now_ns : std::max(wait->issue_ns, world_.now_ns);
  const bool tells_times = wait->kind == WaitKind::Activities;
  world_.stop.answers.push_back({rank_, slot, wait->kind, wait->background, wait->asked_ns, status, time_ns, value,
                                 tells_times ? std::vector<EventNews>{} : news(*wait),
                                 tells_times ? take_activities() : std::vector<ActivityTimes>{}});
  const bool sets_helper_going = wait->background && status == ReplyStatus::Done && !is_query(wait->kind);
  close_wait(*wait, time_ns);
  if (!sets_helper_going) return;
  // It may set its driver going, at this time.
  ++world_.wakeups;
  wake();
}

void Rank::answer(std::uint32_t slot, ReplyStatus status, Nanoseconds time_ns) {
  if (slot >= kReplySlots || !waits_[slot].open)
    throw std::invalid_argument("rank " + std::to_string(rank_) + " does not wait in slot " + std::to_string(slot));
  if (status != ReplyStatus::Stop && (time_ns < world_.now_ns || time_ns > kLatest))
    throw std::invalid_argument("an answer's time is before the engine's");
  close_wait(waits_[slot], time_ns);
}

// Questions are not logged as time spent waiting: a polling loop asks too many. Nor are waits for the simulation, which
// take no virtual time: whether a rank was set aside for a moment differs from run to run.
void Rank::close_wait(Wait& wait, Nanoseconds time_ns) {
  wait.open = false;
  if (wait.background) {
    --helper_waits_;
    return;
  }
  ++world_.wakeups;
  const bool takes_time = wait.kind != WaitKind::Resume && wait.kind != WaitKind::Outside;
  if (!is_query(wait.kind) && takes_time)
    world_.spans.push_back({rank_, SpanKind::HostWait, wait.device, wait.stream == kNone ? 0 : streams_[wait.stream].id,
                            static_cast<std::uint32_t>(wait.kind), wait.issue_ns, wait.issue_ns, time_ns});
  fed_ns_ = std::max(fed_ns_, time_ns);
  liveness_.told();
}

void Rank::add_host_waits(std::vector<HostWait>& waits) const {
  for (const Wait& wait : waits_) {
    if (!wait.open || wait.background) continue;
    HostWait made{rank_, wait.kind, wait.site, wait.issue_ns, {}};
    if (wait.item != kNone) {
      for (const Index item : items_.running_before(wait.item)) made.held_up_by.push_back(describe(item));
    }
    waits.push_back(std::move(made));
  }
}

std::string Rank::describe(Index index) const {
  const Item& item = items_[index];
  const Stream& stream = streams_[item.stream];
  const std::string where = " on stream " + std::to_string(stream.id) + " of device " + std::to_string(stream.device);
  if (item.kind != ItemKind::Launch) return (item.kind == ItemKind::Transfer ? "a copy" : "a kernel") + where;
  std::string text;
  for (const Queued& op : launches_[static_cast<Index>(item.value)].ops) {
    if (!text.empty()) text += ", ";
    text += name(static_cast<NcclOpKind>(op.flags)) + " " + std::to_string(op.args[NcclOpArg::Sequence]) +
            " of communicator " + std::to_string(op.id);
  }
  return text;
}

}  // namespace ph
