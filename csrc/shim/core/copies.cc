#include "shim/core/copies.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "shim/core/capture.h"
#include "shim/core/config.h"
#include "shim/core/event_progress.h"
#include "shim/core/launch_queue.h"
#include "shim/core/rank.h"
#include "shim/core/spin_watch.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Pageable host-to-device copies up to this are staged and return at once. Source: as copies.h.
constexpr std::size_t kStagedBytes = 64u << 10;

bool is_pageable(const void* pointer) noexcept {
  Allocation allocation;
  return !is_device_pointer(pointer) && !find_allocation(pointer, allocation);
}

void record_copy(CopyKind kind, bool pageable, std::size_t bytes, StreamRef stream) noexcept {
  enter_queue(stream);
  Record record{};
  record.kind = RecordKind::Copy;
  record.flags = pageable ? kCopyPageable : 0;
  record.device = stream.device;
  record.stream = stream.id;
  record.id = static_cast<std::uint32_t>(kind);
  record.arg[CopyArg::Bytes] = bytes;
  emit(record);
}

struct Plan {
  CopyKind kind;
  bool pageable;
  bool host_reads;   // the program reads the destination as soon as the copy has returned
  bool waits;
};

Plan plan(const void* destination, const void* source, std::size_t bytes, bool synchronous) noexcept {
  const CopyKind kind = copy_kind(destination, source);
  const bool pageable = (kind == CopyKind::HostToDevice && is_pageable(source)) ||
                        (kind == CopyKind::DeviceToHost && is_pageable(destination));
  const bool to_host = kind == CopyKind::DeviceToHost || kind == CopyKind::HostToHost;
  bool waits = false;
  if (kind == CopyKind::DeviceToHost) waits = synchronous || pageable;
  if (kind == CopyKind::HostToDevice) waits = pageable ? bytes > kStagedBytes : synchronous;
  if (kind == CopyKind::HostToHost) waits = synchronous;
  return {kind, pageable, to_host && (waits || synchronous), waits};
}

Record wait_record(WaitKind kind) noexcept {
  Record record{};
  record.id = static_cast<std::uint32_t>(kind);
  return record;
}

Record stream_record(WaitKind kind, StreamRef stream) noexcept {
  Record record = wait_record(kind);
  record.device = stream.device;
  record.stream = stream.id;
  return record;
}

Record event_record(WaitKind kind, EventRef event) noexcept {
  Record record = wait_record(kind);
  record.arg[EventWaitArg::Instance] = event.instance;
  return record;
}

// Allocators ask once or twice before they do something else.
constexpr std::uint64_t kFreeQueries = 16;
// Each query waits for the simulation, so that a loop should have few (assumed: a second of virtual time takes 60,000).
SpinWatch queries{1'000};

// Waits, and remembers what the answer tells about events.
ReplyStatus ask(const Record& record) noexcept {
  Reply reply;
  wait(record, reply);
  learn_events({reply.payload, reply.payload_bytes});
  return reply.status;
}

// Waits that restless helpers keep, all of the rank together.
std::atomic<std::uint32_t> kept_waits{0};

// A helper that does nothing but ask while its rank's clock stands (PyTorch's watchdog up to 2.8, when its process group
// is destroyed) would be taken for one at work, and hold up what it asks for. So it waits for that, up to `kRest` at each
// question, and goes on waiting for it when it asks after something else: the simulation must not pass it in between,
// and who asks after the same few things in turn has nothing more to tell, so that the rank is found still.
class Restlessness {
 public:
  Restlessness() = default;
  Restlessness(const Restlessness&) = delete;
  Restlessness& operator=(const Restlessness&) = delete;
  ~Restlessness() noexcept {
    while (attached() && !kept_.empty()) give_up_oldest();
  }

  bool rests() const noexcept { return asked_ > kMostAsked; }
  // "Not ready" was the answer.
  void note() noexcept {
    const std::uint64_t now_ns = host_clock_ns();
    if (std::exchange(clock_ns_, now_ns) != now_ns) asked_ = 0;
    if (!rests()) ++asked_;
  }
  // `wait`: for what the question is about.
  ReplyStatus rest(const Record& wait) noexcept {
    keep(wait);
    std::vector<std::uint32_t> slots;
    for (const Kept& one : kept_) slots.push_back(one.slot);
    await_any_reply(slots, kRest);
    const ReplyStatus status = take_replies(wait);
    while (!kept_.empty() && kept_waits.load() > kMostKept) give_up_oldest();
    return status;
  }

 private:
  struct Kept {
    Record wait;
    std::uint32_t slot;
  };

  static constexpr std::uint32_t kMostAsked = 10'000;  // a watchdog that sleeps between its rounds asks less (assumed)
  static constexpr timespec kRest{0, 100'000'000};  // as PyTorch's between its rounds (ProcessGroupNCCL.hpp)
  static constexpr std::uint32_t kMostKept = kReplySlots / 2;  // the others are for whoever cannot go on without

  static bool are_same(const Record& one, const Record& other) noexcept {
    return one.id == other.id && one.device == other.device && one.stream == other.stream &&
           one.arg[EventWaitArg::Instance] == other.arg[EventWaitArg::Instance];
  }

  // As the last asked after.
  void keep(const Record& wait) {
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return are_same(one.wait, wait); });
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());
      return;
    }
    kept_.push_back({wait, begin_wait(wait)});
    ++kept_waits;
  }

  // All that have come; tells the one to `wait`.
  ReplyStatus take_replies(const Record& wait) {
    ReplyStatus status = ReplyStatus::NotReady;
    std::erase_if(kept_, [&](const Kept& one) {
      Reply reply;
      if (!take_reply(one.slot, reply)) return false;
      --kept_waits;
      learn_events({reply.payload, reply.payload_bytes});
      if (are_same(one.wait, wait)) status = reply.status;
      return true;
    });
    return status;
  }

  void give_up_oldest() {
    withdraw_wait(kept_.front().slot);
    kept_.erase(kept_.begin());
    --kept_waits;
  }

  std::uint32_t asked_ = 0;
  std::uint64_t clock_ns_ = 0;
  std::vector<Kept> kept_;  // as they were asked after
};
thread_local Restlessness helper;

bool is_restless() noexcept { return attached() && !is_driver() && helper.rests(); }

// "Not ready" costs time where the program does nothing but ask.
void charge_not_ready() noexcept {
  if (!is_driver()) return helper.note();
  if (queries.note() > kFreeQueries) queries.charge(config().query_ns);
}

// From the first row's begin to the last one's end; beyond all memory where the numbers are.
std::size_t rows_bytes(std::size_t pitch, std::size_t width, std::size_t height) noexcept {
  std::size_t bytes;
  const bool is_more =
      __builtin_mul_overflow(height - 1, pitch, &bytes) || __builtin_add_overflow(bytes, width, &bytes);
  return is_more ? SIZE_MAX : bytes;
}

}  // namespace

bool can_copy(const void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
              std::size_t width, std::size_t height) noexcept {
  return width == 0 || height == 0 ||
         (is_writable(destination, rows_bytes(destination_pitch, width, height)) &&
          is_readable(source, rows_bytes(source_pitch, width, height)));
}

bool can_fill(const void* destination, std::size_t element_bytes, std::size_t count) noexcept {
  return count <= SIZE_MAX / element_bytes && is_writable(destination, element_bytes * count);
}

CopyKind copy_kind(const void* destination, const void* source) noexcept {
  const bool to_device = is_device_pointer(destination);
  const bool from_device = is_device_pointer(source);
  if (to_device && from_device) {
    Allocation to;
    Allocation from;
    const bool peer = find_allocation(destination, to) && find_allocation(source, from) && to.device != from.device;
    return peer ? CopyKind::PeerToPeer : CopyKind::DeviceToDevice;
  }
  if (to_device) return CopyKind::HostToDevice;
  return from_device ? CopyKind::DeviceToHost : CopyKind::HostToHost;
}

void copy_async(void* destination, const void* source, std::size_t bytes, StreamRef stream) noexcept {
  copy_2d(destination, bytes, source, bytes, bytes, 1, stream, false);
}

void copy_sync(void* destination, const void* source, std::size_t bytes, StreamRef stream) noexcept {
  copy_2d(destination, bytes, source, bytes, bytes, 1, stream, true);
}

void copy_2d(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
             std::size_t width, std::size_t height, StreamRef stream, bool synchronous) noexcept {
  if (width == 0 || height == 0) return;
  const Plan p = plan(destination, source, width * height, synchronous);
  record_copy(p.kind, p.pageable, width * height, stream);
  if (p.waits && !call_is_captured()) wait_stream(stream);
  for (std::size_t row = 0; row < height; ++row) {
    copy_values(static_cast<char*>(destination) + row * destination_pitch,
                static_cast<const char*>(source) + row * source_pitch, width, p.host_reads);
  }
}

void fill_async(void* destination, unsigned value, std::size_t element_bytes, std::size_t count,
                StreamRef stream) noexcept {
  if (count == 0) return;
  enter_queue(stream);
  Record record{};
  record.kind = RecordKind::Fill;
  record.device = stream.device;
  record.stream = stream.id;
  record.arg[FillArg::Bytes] = element_bytes * count;
  emit(record);
  fill_values(destination, value, element_bytes, count);
}

void wait_stream(StreamRef stream) noexcept {
  ask(stream_record(WaitKind::Stream, stream));
  drain_values();
}

void wait_event(EventRef event) noexcept {
  if (event.instance == 0) return;
  if (event_progress(event.stream, event.instance) != EventProgress::Done) ask(event_record(WaitKind::Event, event));
  drain_values();
}

void wait_device(int device) noexcept {
  Record record = wait_record(WaitKind::Device);
  record.device = static_cast<std::uint16_t>(device);
  ask(record);
  drain_values();
}

bool query_stream(StreamRef stream) noexcept {
  const ReplyStatus status = is_restless() ? helper.rest(stream_record(WaitKind::Stream, stream))
                                           : ask(stream_record(WaitKind::QueryStream, stream));
  if (status == ReplyStatus::NotReady) {
    charge_not_ready();
    return false;
  }
  drain_values();
  return true;
}

bool query_event(EventRef event) noexcept {
  if (event.instance == 0) return true;
  const EventProgress known = event_progress(event.stream, event.instance);
  ReplyStatus status = known == EventProgress::Done ? ReplyStatus::Done : ReplyStatus::NotReady;
  if (known != EventProgress::Done && is_restless()) status = helper.rest(event_record(WaitKind::Event, event));
  else if (known == EventProgress::Unknown) status = ask(event_record(WaitKind::QueryEvent, event));
  if (status == ReplyStatus::NotReady) {
    charge_not_ready();
    return false;
  }
  drain_values();
  return true;
}

void stream_wait_event(StreamRef stream, EventRef event) noexcept {
  if (event.instance == 0) return;
  become_driver();
  Record record{};
  record.kind = RecordKind::StreamWait;
  record.device = stream.device;
  record.stream = stream.id;
  record.arg[StreamWaitArg::Instance] = event.instance;
  emit(record);
}

}  // namespace ph
