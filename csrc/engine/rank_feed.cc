// The input side of a rank: what a record may say, and when it was issued.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "engine/names.h"
#include "engine/rank.h"

namespace ph {

namespace {

constexpr std::uint16_t kMostDevices = 1024;
constexpr std::uint32_t kMostSignatures = 1u << 24;
constexpr std::uint32_t kMostSignaturesAhead = 1u << 20;  // ranks number them one after the other
// More than any GPU holds, little enough that sums of times cannot overflow.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 41;
constexpr std::uint64_t kDataTypes = 12;  // ncclNumTypes of NCCL 2.27
constexpr std::size_t kRecordsRemembered = 8;
// Half of all time is left for what comes of it: work, collectives, answers.
constexpr Nanoseconds kLatestIssue = kLatest / 2;

}  // namespace

std::vector<Announcement> Rank::feed(std::string_view cells, Nanoseconds host_clock_ns) {
  if (host_clock_ns < 0 || host_clock_ns > kLatest)
    throw MalformedInput("rank " + std::to_string(rank_) + ": its host clock is out of range");
  forget_processed();
  std::vector<Announcement> announcements;
  reader_.append(cells);
  while (const auto unit = reader_.next()) take(*unit, announcements);
  host_clock_ns_ = std::max(host_clock_ns_, host_clock_ns);
  find_next();
  return announcements;
}

void Rank::take(const RecordsReader::Unit& unit, std::vector<Announcement>& announcements) {
  for (const Record& record : unit.records) {
    if (fed_ns_ > kLatestIssue || record.host_gap_ns > static_cast<std::uint64_t>(kLatestIssue - fed_ns_))
      reader_.fail("host time overflows");
    if (record.device >= kMostDevices) reader_.fail("device " + std::to_string(record.device));
    const bool was_running = liveness_.state() == Liveness::State::Running;
    if (record.site != 0 && record.kind != RecordKind::Marker) last_site_ = record.site;
    fed_ns_ += static_cast<Nanoseconds>(record.host_gap_ns);
    Queued queued{fed_ns_,       kNone,       record.id,    record.site,
                  record.device, record.kind, record.flags, std::to_array(record.arg)};
    note_scope(record);
    switch (record.kind) {
      case RecordKind::StreamCreate:
        if (!streams_.create(record.stream, record.device, record.flags & kStreamNonBlocking))
          reader_.fail("stream " + std::to_string(record.stream) + " exists");
        continue;
      case RecordKind::Wait: feed_wait(record, queued); break;
      case RecordKind::NcclOp:
        check_operation(record);
        queue_.push_back(queued);
        continue;
      case RecordKind::StreamDestroy:
      case RecordKind::Kernel:
      case RecordKind::Copy:
      case RecordKind::Fill:
      case RecordKind::EventRecord:
      case RecordKind::StreamWait:
      case RecordKind::HostFunction:
      case RecordKind::NcclLaunch:
        queued.stream = streams_.find(record.stream, record.device);
        check_work(record, queued);
        queue_.push_back(queued);
        break;
      case RecordKind::Signature:
      case RecordKind::Site:
      case RecordKind::Marker:
      case RecordKind::Statistics:
      case RecordKind::Unsupported:
      case RecordKind::CommDestroy:
      case RecordKind::Exit:
      case RecordKind::Alloc:
      case RecordKind::Free:
      case RecordKind::OutOfMemory:
      case RecordKind::SyntheticRead: announce(record, unit.payload, announcements); continue;
    }
    const bool background = record.kind == RecordKind::Wait && (record.flags & kWaitBackground);
    const bool returns = record.kind == RecordKind::Wait && record.id == static_cast<std::uint32_t>(WaitKind::Resume) &&
                         liveness_.was_woken();
    if (!background) world_.alarms_in_a_row = 0;
    if (was_running && !background && !returns && fed_ns_ < world_.now_ns && host_clock_ns_ > fed_ns_)
      reader_.fail("comes from before the host clock that the rank had told");
    if (was_running && !background && !returns && fed_ns_ < world_.now_ns)
      throw BrokenInvariant("a running rank issued work before the time it had guaranteed");
  }
}

// All records of work have it at the same place.
void Rank::note_scope(const Record& record) {
  if (record.kind != RecordKind::Kernel && record.kind != RecordKind::Copy && record.kind != RecordKind::Fill &&
      record.kind != RecordKind::NcclLaunch)
    return;
  const auto scope = static_cast<std::uint32_t>(record.arg[KernelArg::Scope]);
  if (std::exchange(last_scope_, scope) != scope) world_.scopes.push_back({rank_, scope, fed_ns_});
}

void Rank::check_work(const Record& record, const Queued& queued) {
  if (queued.stream == kNone) reader_.fail("stream " + std::to_string(record.stream) + " does not exist");
  switch (record.kind) {
    case RecordKind::StreamDestroy:
      if (!streams_.forget(record.stream)) reader_.fail("the legacy stream cannot be destroyed");
      return;
    case RecordKind::Kernel:
      if (record.id >= timings_.size() || !timings_[record.id].announced)
        reader_.fail("signature " + std::to_string(record.id) + " was not announced");
      return;
    case RecordKind::Copy:
      if (record.id == 0 || record.id >= kCopyKinds || !gpu_.copy[record.id][0])
        reader_.fail("no rate for copies of kind " + std::to_string(record.id));
      check_transfer(*gpu_.copy[record.id][0], record);
      return;
    case RecordKind::Fill: check_transfer(gpu_.fill, record); return;
    case RecordKind::EventRecord: feed_event_record(record); return;
    default: return;
  }
}

void Rank::check_transfer(const Rate& rate, const Record& record) {
  if (!is_transferable(rate, record.arg[CopyArg::Bytes]))
    reader_.fail(std::to_string(record.arg[CopyArg::Bytes]) + " bytes");
}

void Rank::check_operation(const Record& record) {
  if (record.flags < 1 || record.flags > static_cast<std::uint8_t>(NcclOpKind::Scatter))
    reader_.fail("operation " + std::to_string(record.flags));
  if (record.arg[NcclOpArg::Count] > kMostElements)
    reader_.fail(std::to_string(record.arg[NcclOpArg::Count]) + " elements");
  if (record.arg[NcclOpArg::Dtype] >= kDataTypes)
    reader_.fail("data type " + std::to_string(record.arg[NcclOpArg::Dtype]));
  if (record.arg[NcclOpArg::Reduction] > kPremulSum)
    reader_.fail("reduction " + std::to_string(record.arg[NcclOpArg::Reduction]));
}

void Rank::feed_event_record(const Record& record) {
  const std::uint64_t instance = record.arg[EventRecordArg::Instance];
  if (instance == 0) reader_.fail("event instance 0");
  const bool timed = (record.flags & kEventUntimed) == 0;
  if (!events_.emplace(instance, Event{Event::kFed, kNone, timed}).second)
    reader_.fail("event instance " + std::to_string(instance) + " was recorded before");
  for (std::size_t i = EventRecordArg::Released; i < kRecordArgs; ++i) {
    const auto released = events_.find(record.arg[i]);
    if (released == events_.end()) continue;
    released->second.kept = false;
    if (released->second.time_ns >= 0) events_.erase(released);
  }
}

void Rank::feed_wait(const Record& record, Queued queued) {
  const std::uint64_t slot = record.arg[WaitArg::Slot];
  if (slot >= kReplySlots) reader_.fail("reply slot " + std::to_string(slot));
  if (record.id < 1 || record.id > static_cast<std::uint32_t>(WaitKind::Activities))
    reader_.fail("kind of wait " + std::to_string(record.id));
  if (record.id == static_cast<std::uint32_t>(WaitKind::Alarm)) return feed_alarm(record);
  if (record.id == static_cast<std::uint32_t>(WaitKind::Withdraw)) return withdraw(slot);
  if ((record.flags & kWaitSucceeds) != 0) succeed(slot);
  Wait& wait = waits_[slot];
  if (wait.open) reader_.fail("reply slot " + std::to_string(slot) + " still waits");
  wait = {.kind = static_cast<WaitKind>(record.id),
          .open = true,
          .background = (record.flags & kWaitBackground) != 0,
          .announces = (record.flags & kWaitAnnounces) != 0,
          .serial = ++wait_serial_,
          .site = record.site,
          .device = record.device,
          .asked_ns = fed_ns_,
          .issue_ns = fed_ns_,
          .args = std::to_array(record.arg)};
  if (wait.kind == WaitKind::Stream || wait.kind == WaitKind::QueryStream) {
    wait.stream = streams_.find(record.stream, record.device);
    if (wait.stream == kNone) reader_.fail("stream " + std::to_string(record.stream) + " does not exist");
  }
  if (wait.kind == WaitKind::Resume) queued.issue_ns = resumes_ns(record);
  const std::uint64_t key = wait.serial * kReplySlots + slot;
  if (wait.background) ++helper_waits_;
  if (!wait.background) {
    liveness_.asks();
  } else if (wait.kind == WaitKind::Outside) {
    helper_acts_.push_back({fed_ns_, key});
    return;
  } else if (is_query(wait.kind)) {
    std::uint64_t value = 0;  // a helper thread is told at once what is known
    const ReplyStatus status = query(wait, true, value);
    reply(key, status, value);
    return;
  }
  queued.args[WaitArg::Slot] = key;
  queue_.push_back(queued);
}

// Values take no virtual time. But a rank that was set aside has let virtual time pass, so that it comes back when they
// were sent, and not when they happened to arrive.
Nanoseconds Rank::resumes_ns(const Record& record) const {
  const std::uint64_t lasts = record.arg[ResumeWaitArg::LastsNs];
  if (record.arg[ResumeWaitArg::ValuesNs] > static_cast<std::uint64_t>(kLatestIssue))
    reader_.fail("values are out of range");
  if (lasts > static_cast<std::uint64_t>(kLatestIssue - fed_ns_)) reader_.fail("a wait lasts too long");
  const Nanoseconds ends_ns = fed_ns_ + static_cast<Nanoseconds>(lasts);
  const auto values_ns = static_cast<Nanoseconds>(record.arg[ResumeWaitArg::ValuesNs]);
  return liveness_.is_aside() ? std::max(ends_ns, values_ns) : ends_ns;
}

// Nobody waits any more for what the process before has waited for. It may have been in the middle of anything.
void Rank::succeed(std::uint64_t slot) {
  for (std::uint64_t other = 0; other < kReplySlots; ++other) {
    const Wait& wait = waits_[other];
    if (!wait.open || other == slot) continue;
    if (wait.kind == WaitKind::CommInit || wait.kind == WaitKind::CommSplit)
      reader_.fail("a process has ended well that waits for a communicator");
    reply(wait.serial * kReplySlots + other, ReplyStatus::NotReady, 0);
  }
  alarms_.clear();
  activities_.clear();
}

// One that has rung may be withdrawn in vain.
void Rank::feed_alarm(const Record& record) {
  if ((record.flags & kWaitBackground) == 0) reader_.fail("an alarm holds a rank up");
  if (record.arg[AlarmWaitArg::DeadlineNs] > static_cast<std::uint64_t>(kLatest))
    reader_.fail("an alarm is out of range");
  const auto deadline_ns = static_cast<Nanoseconds>(record.arg[AlarmWaitArg::DeadlineNs]);
  alarm_slot_ = static_cast<std::uint32_t>(record.arg[WaitArg::Slot]);
  if (record.arg[AlarmWaitArg::Withdrawn] == 0) {
    alarms_.insert(deadline_ns);
  } else if (const auto found = alarms_.find(deadline_ns); found != alarms_.end()) {
    alarms_.erase(found);
  }
}

void Rank::withdraw(std::uint64_t slot) {
  const Wait& wait = waits_[slot];
  if (wait.open && !wait.background) reader_.fail("a driver's wait is withdrawn");
  if (wait.open && (wait.kind == WaitKind::CommInit || wait.kind == WaitKind::CommSplit))
    reader_.fail("a wait for a communicator is withdrawn");
  if (wait.open) reply(wait.serial * kReplySlots + slot, ReplyStatus::NotReady, 0);
}

void Rank::announce(const Record& record, std::string_view payload, std::vector<Announcement>& announcements) {
  if (record.kind == RecordKind::Signature) {
    if (record.id >= kMostSignatures || record.id > timings_.size() + kMostSignaturesAhead)
      reader_.fail("signature " + std::to_string(record.id));
    if (record.id >= timings_.size()) timings_.resize(record.id + 1);
    timings_[record.id].announced = true;
  } else if (record.kind == RecordKind::Site) {
    world_.sites.define(rank_, record.id, payload);
  } else if (record.kind == RecordKind::Exit) {
    liveness_.exit();
  }
  announcements.push_back({record.kind, record.flags, record.device, rank_, record.id, record.site, fed_ns_,
                           std::to_array(record.arg), std::string(payload)});
}

void Rank::set_duration(std::uint32_t signature, Nanoseconds duration_ns, double sm_demand, std::uint32_t timing) {
  if (duration_ns < 0 || duration_ns > kLatest) throw std::invalid_argument("a kernel's duration is out of range");
  if (!(sm_demand > 0 && sm_demand <= 1)) throw std::invalid_argument("sm_demand is not in (0, 1]");
  if (signature >= timings_.size() || !timings_[signature].announced)
    throw std::invalid_argument("rank " + std::to_string(rank_) + " did not announce signature " +
                                std::to_string(signature));
  const auto demand = static_cast<std::uint32_t>(std::ceil(sm_demand * ComputeShare::kUnits));
  timings_[signature] = {duration_ns, demand, timing, true};
}

void Rank::check_whole() const { reader_.check_whole(); }

// The last records stay, to be shown if the engine finds itself wrong.
void Rank::forget_processed() {
  if (queue_head_ <= kRecordsRemembered) return;
  if (queue_head_ < queue_.size() && queue_head_ * 2 < queue_.size()) return;  // amortised
  const auto keep = queue_.begin() + static_cast<std::ptrdiff_t>(queue_head_ - kRecordsRemembered);
  queue_.erase(queue_.begin(), keep);
  queue_head_ = kRecordsRemembered;
}

std::string Rank::last_records() const {
  std::ostringstream text;
  text << "last records of rank " << rank_ << ":";
  const std::size_t first = queue_head_ > kRecordsRemembered ? queue_head_ - kRecordsRemembered : 0;
  for (std::size_t i = first; i < queue_head_; ++i) {
    const Queued& record = queue_[i];
    text << "\n  " << record.issue_ns << " ns " << name(record.kind) << " id " << record.id << " device "
         << record.device << " args";
    for (const std::uint64_t arg : record.args) text << " " << arg;
    text << " at " << world_.sites.text(rank_, record.site);
  }
  return text.str();
}

}  // namespace ph
