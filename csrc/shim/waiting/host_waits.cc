#include "shim/waiting/host_waits.h"

#include <cstdint>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/host_time/spin_watch.h"
#include "shim/values/values.h"
#include "shim/waiting/event_progress.h"
#include "shim/waiting/restless_helpers.h"

namespace ph {

namespace {

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

// "Not ready" costs time where the program does nothing but ask.
void charge_not_ready() noexcept {
  if (!is_driver()) return note_not_ready();
  if (queries.note() > kFreeQueries) queries.charge(config().query_ns);
}

}  // namespace

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
  const ReplyStatus status = is_restless() ? rest_for(stream_record(WaitKind::Stream, stream))
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
  if (known != EventProgress::Done && is_restless()) status = rest_for(event_record(WaitKind::Event, event));
  else if (known == EventProgress::Unknown) status = ask(event_record(WaitKind::QueryEvent, event));
  if (status == ReplyStatus::NotReady) {
    charge_not_ready();
    return false;
  }
  drain_values();
  return true;
}

}  // namespace ph
