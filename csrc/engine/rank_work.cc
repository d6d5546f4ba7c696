// The device side of a rank: from records to items, from items to time.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "engine/rank.h"

namespace ph {

namespace {

template <typename T>
T take_first(std::vector<T>& list) {
  const T first = list.front();
  list.erase(list.begin());
  return first;
}

}  // namespace

void Rank::find_next() {
  next_ = {};
  const auto offer = [this](Nanoseconds time_ns, Source source, std::size_t device = 0) {
    if (time_ns < next_.time_ns) next_ = {time_ns, source, static_cast<std::uint16_t>(device)};
  };
  for (std::size_t ordinal = 0; ordinal < devices_.size(); ++ordinal)
    if (devices_[ordinal]) offer(devices_[ordinal]->compute.next_ns(), Source::Compute, ordinal);
  if (!timers_.empty()) offer(timers_.front().time_ns, Source::Timer);
  if (!helper_acts_.empty()) offer(helper_acts_.front().time_ns, Source::HelperAct);
  if (queue_head_ < queue_.size()) offer(queue_[queue_head_].issue_ns, Source::Record);
  if (!queries_.empty()) offer(queries_.front().time_ns, Source::Query);
  if (has_alarms() && !lacks_proof()) offer(*alarms_.begin(), Source::Alarm);
}

Phase Rank::next_phase() const {
  switch (next_.source) {
    case Source::Compute:
    case Source::Timer: return Phase::End;
    case Source::HelperAct: return Phase::Wait;
    case Source::Record: return begins_local_wait(queue_[queue_head_]) ? Phase::Wait : Phase::Issue;
    case Source::Query: return Phase::Question;
    case Source::Alarm: return Phase::Issue;
  }
  throw BrokenInvariant("an event without a source");
}

std::uint32_t Rank::next_round() const {
  if (round_.time_ns != next_.time_ns) return 0;
  const bool begins = next_.source == Source::Record && begins_round(queue_[queue_head_]);
  return round_.number + (begins && round_.issued ? 1 : 0);
}

void Rank::enter_round(const Queued& record) {
  if (round_.time_ns != world_.now_ns) round_ = {.time_ns = world_.now_ns};
  if (!begins_local_wait(record)) {
    round_.issued = true;
  } else if (begins_round(record) && std::exchange(round_.issued, false)) {
    ++round_.number;
  }
}

void Rank::process() {
  switch (next_.source) {
    case Source::Compute: complete(devices_[next_.device]->compute.finish(world_.now_ns)); break;
    case Source::Timer: {
      const Index item = timers_.front().item;
      std::pop_heap(timers_.begin(), timers_.end(), std::greater<>());
      timers_.pop_back();
      complete(item);
      break;
    }
    case Source::HelperAct: {
      const DueWait act = take_first(helper_acts_);
      world_.acts = true;
      reply(act.key, ReplyStatus::Done, 0);
      break;
    }
    case Source::Record: {
      const Queued record = queue_[queue_head_++];
      enter_round(record);
      carry_out(record);
      break;
    }
    case Source::Query: evaluate_query(take_first(queries_)); break;
    case Source::Alarm: ring_alarm(); break;
  }
  run_ready();
  find_next();
}

void Rank::carry_out(const Queued& record) {
  switch (record.kind) {
    case RecordKind::Kernel: {
      const Timing& timing = timings_[record.id];
      require(timing.duration_ns >= 0, "a kernel is launched whose duration was not set");
      add_to_stream(record, {.kind = ItemKind::Compute,
                             .span = SpanKind::Kernel,
                             .id = timing.timing,
                             .demand = timing.demand,
                             .activity = record.args[KernelArg::Activity],
                             .duration_ns = timing.duration_ns});
      return;
    }
    case RecordKind::Copy: add_copy(record); return;
    case RecordKind::Fill:
      add_to_stream(record, {.kind = ItemKind::Compute,
                             .span = SpanKind::Fill,
                             .demand = ComputeShare::kUnits,
                             .activity = record.args[FillArg::Activity],
                             .duration_ns = transfer_ns(gpu_.fill, record.args[FillArg::Bytes])});
      return;
    case RecordKind::EventRecord:
      add_to_stream(record, {.kind = ItemKind::EventRecord, .value = record.args[EventRecordArg::Instance]});
      return;
    case RecordKind::StreamWait:
    case RecordKind::HostFunction: add_to_stream(record, {.kind = ItemKind::Order}); return;
    case RecordKind::NcclLaunch:
      world_.sends_values = (record.flags & kNcclLaunchSendsValues) != 0;
      add_launch(record);
      return;
    case RecordKind::StreamDestroy: streams_.destroy(record.stream); return;
    case RecordKind::Wait: begin_wait(record); return;
    default: throw BrokenInvariant("a record of this kind does not belong in the queue");
  }
}

// Records of a rank that is no constraint may come late; they count as issued now.
void Rank::add_to_stream(const Queued& record, Item item) {
  item.stream = record.stream;
  item.device = streams_[record.stream].device;
  item.site = record.site;
  item.issue_ns = std::max(record.issue_ns, world_.now_ns);
  work_ns_ += item.duration_ns;
  if (work_ns_ > kMostWork)
    throw MalformedInput("rank " + std::to_string(rank_) + ": its GPU has more to do than months of work");
  item.stream_ns = streams_[record.stream].given_ns += item.duration_ns;
  const Index index = items_.add(item);
  Nanoseconds start_ns = item.issue_ns;
  const auto depend = [&](Index on) {
    items_.depend(index, on);
    start_ns = std::max(start_ns, earliest_end_ns(items_[on]));
  };
  streams_.predecessors(record.stream, depend);
  if (record.kind == RecordKind::StreamWait) {
    const Index recording = event(record.args[StreamWaitArg::Instance]).item;
    if (recording != kNone) depend(recording);
  } else if (record.kind == RecordKind::EventRecord) {
    events_.at(record.args[EventRecordArg::Instance]).item = index;
    streams_[record.stream].pending_events.push_back(record.args[EventRecordArg::Instance]);
  } else if (record.kind == RecordKind::NcclLaunch) {
    launches_[static_cast<Index>(item.value)].item = index;
  }
  items_[index].earliest_ns = start_ns + item.duration_ns;
  streams_.set_tail(record.stream, index);
  if (items_[index].unmet == 0) ready_.push_back(index);
}

// No work takes less than its duration, and a stream does one thing after the other.
Nanoseconds Rank::earliest_end_ns(const Item& item) const {
  const Stream& stream = streams_[item.stream];
  return std::max(item.earliest_ns, stream.free_at_ns + item.stream_ns - stream.done_ns);
}

void Rank::add_copy(const Queued& record) {
  const auto kind = static_cast<CopyKind>(record.id);
  const auto& rates = gpu_.copy[record.id];
  const bool pageable = (record.flags & kCopyPageable) != 0;
  const Rate& rate = pageable && rates[1] ? *rates[1] : *rates[0];
  Item item{.kind = ItemKind::Compute,
            .span = SpanKind::Copy,
            .id = record.id,
            .demand = ComputeShare::kUnits,
            .activity = record.args[CopyArg::Activity],
            .duration_ns = transfer_ns(rate, record.args[CopyArg::Bytes])};
  if (const auto engine = copy_engine(kind)) {
    item.kind = ItemKind::Transfer;
    item.copy_engine = *engine;
  }
  add_to_stream(record, item);
}

void Rank::add_launch(const Queued& record) {
  const auto first = queue_.begin() + static_cast<std::ptrdiff_t>(queue_head_);
  const auto last = first + static_cast<std::ptrdiff_t>(record.args[NcclLaunchArg::Operations]);
  const auto unfinished = static_cast<std::uint32_t>(record.args[NcclLaunchArg::Operations]);
  const Index launch = launches_.add({{first, last}, kNone, unfinished, world_.now_ns});
  queue_head_ += record.args[NcclLaunchArg::Operations];
  add_to_stream(record, {.kind = ItemKind::Launch, .value = launch, .activity = record.args[NcclLaunchArg::Activity]});
}

void Rank::run_ready() {
  for (std::size_t i = 0; i < ready_.size(); ++i) start(ready_[i]);
  ready_.clear();
}

void Rank::start(Index index) {
  Item& item = items_[index];
  item.start_ns = world_.now_ns;
  switch (item.kind) {
    case ItemKind::Compute:
      device(item.device).compute.start(index, item.duration_ns, item.demand, world_.now_ns);
      return;
    case ItemKind::Transfer: {
      CopyEngine& engine = device(item.device).copy_engines[item.copy_engine];
      if (engine.busy) engine.waiting.push_back(index);
      else start_transfer(index);
      return;
    }
    case ItemKind::Launch: start_launch(index); return;
    case ItemKind::EventRecord:
    case ItemKind::Order:
    case ItemKind::HostWait: complete(index); return;
  }
}

void Rank::start_transfer(Index index) {
  Item& item = items_[index];
  item.start_ns = world_.now_ns;
  device(item.device).copy_engines[item.copy_engine].busy = true;
  end_later(index, world_.now_ns + item.duration_ns);
}

void Rank::end_later(Index item, Nanoseconds time_ns) {
  timers_.push_back({time_ns, ++timer_serial_, item});
  std::push_heap(timers_.begin(), timers_.end(), std::greater<>());
}

void Rank::start_launch(Index index) {
  const Item item = items_[index];
  const auto launch = static_cast<Index>(item.value);
  const std::uint64_t launch_id = world_.launches++;
  if (launches_[launch].unfinished == 0) {
    complete(index);
    return;
  }
  Device& on = device(item.device);
  set_active_launches(on, on.active_launches + 1);
  for (const Queued& op : launches_[launch].ops) {
    const Arrival arrival{rank_,
                          op.device,
                          launch,
                          launch_id,
                          static_cast<NcclOpKind>(op.flags),
                          op.id,
                          op.args,
                          op.site != 0 ? op.site : item.site};
    world_.operations.arrive(arrival, world_.now_ns, world_.stop);
    if (world_.stop.mismatch) return;
  }
}

void Rank::end_operation(const Participant& part, std::uint32_t number, Nanoseconds end_ns) {
  Launch& launch = launches_[part.launch];
  const Item& item = items_[launch.item];
  require(launch.unfinished > 0 && item.kind == ItemKind::Launch, "an operation ends twice");
  world_.spans.push_back({rank_, SpanKind::Communication, item.device, streams_[item.stream].id, number, item.issue_ns,
                          part.arrival_ns, end_ns});
  launch.end_ns = std::max(launch.end_ns, end_ns);
  if (--launch.unfinished > 0) return;
  streams_[item.stream].free_at_ns = launch.end_ns;
  end_later(launch.item, launch.end_ns);
  find_next();
}

void Rank::complete(Index index) {
  const Item item = items_[index];
  const Nanoseconds now_ns = world_.now_ns;
  require(item.unmet == 0, "an item is done before what it waits for");
  if (item.span != SpanKind::None)
    world_.spans.push_back(
        {rank_, item.span, item.device, streams_[item.stream].id, item.id, item.issue_ns, item.start_ns, now_ns});
  if (item.activity != 0) activities_.push_back({item.activity, item.start_ns, now_ns});
  if (item.kind == ItemKind::EventRecord) {
    const auto recorded = events_.find(item.value);
    recorded->second.time_ns = now_ns;
    recorded->second.item = kNone;
    if (!recorded->second.kept) events_.erase(recorded);  // that it is done says all: nobody asks when it was
    streams_[item.stream].done_event = item.value;
    streams_[item.stream].pending_events.pop_front();
  } else if (item.kind == ItemKind::HostWait) {
    reply(item.value, ReplyStatus::Done, 0);
  } else if (item.kind == ItemKind::Transfer) {
    CopyEngine& engine = device(item.device).copy_engines[item.copy_engine];
    engine.busy = false;
    if (!engine.waiting.empty()) {
      start_transfer(engine.waiting.front());
      engine.waiting.pop_front();
    }
  } else if (item.kind == ItemKind::Launch) {
    if (!launches_[static_cast<Index>(item.value)].ops.empty()) {
      Device& on = device(item.device);
      set_active_launches(on, on.active_launches - 1);
    }
    launches_.remove(static_cast<Index>(item.value));
  }
  if (item.stream != kNone) {
    streams_[item.stream].done_ns = item.stream_ns;
    streams_[item.stream].free_at_ns = now_ns;
    streams_.item_done(item.stream, index);
  }
  items_.remove(index, [this](Index dependent) { ready_.push_back(dependent); });
}

void Rank::set_active_launches(Device& device, std::uint32_t launches) {
  device.active_launches = launches;
  device.compute.set_available(available_compute(gpu_, launches), world_.now_ns);
}

Device& Rank::device(std::uint16_t ordinal) {
  if (ordinal >= devices_.size()) devices_.resize(ordinal + 1u);
  if (!devices_[ordinal]) devices_[ordinal] = std::make_unique<Device>();
  return *devices_[ordinal];
}

}  // namespace ph
