// Current device, streams and events of the rank.
#include "shim/core/device.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "shim/channel/rank.h"
#include "shim/channel/succession.h"
#include "shim/core/addresses.h"
#include "shim/core/visible_devices.h"
#include "shim/core/handles.h"
#include "shim/graph/capture.h"

namespace ph {

namespace {

struct StreamState {
  std::uint32_t id = 0;
  std::uint16_t device = 0;
  bool non_blocking = false;
  int priority = 0;
};

struct EventState {
  int device = 0;
  bool timing = true;
  std::uint64_t instance = 0;
  StreamRef stream{};
  std::shared_ptr<const CapturedEvent> captured;
};

HandleTable<StreamState> streams{HandleTag::Stream};
HandleTable<EventState> events{HandleTag::Event};
std::mutex recording;     // guards the count, and that records of events stand in its order
std::mutex event_fields;  // instance and stream of every event: one thread may ask while another records
thread_local int device_of_thread = 0;
thread_local void* per_thread_streams[kMaxDevices];

// CUDA's special handle values: cudaStreamLegacy and cudaStreamPerThread.
const void* const kLegacy = reinterpret_cast<const void*>(0x1);
const void* const kPerThread = reinterpret_cast<const void*>(0x2);

// Timed instances that no handle stands for any more; the next event records tell the server to forget them.
std::mutex released_mutex;
std::vector<std::uint64_t>& released = *new std::vector<std::uint64_t>;

void release_instance(const EventState& event) {
  const std::scoped_lock lock(event_fields, released_mutex);
  if (!event.timing || event.instance == 0) return;
  released.push_back(event.instance);
}

void take_released(std::span<std::uint64_t> room) {
  const std::lock_guard lock(released_mutex);
  for (std::uint64_t& instance : room.first(std::min(room.size(), released.size()))) {
    instance = released.back();
    released.pop_back();
  }
}

}  // namespace

int current_device() noexcept { return device_of_thread; }

bool set_current_device(int device) noexcept {
  if (!is_visible(device)) return false;
  device_of_thread = device;
  return true;
}

StreamRef resolve_stream(const void* handle) noexcept {
  if (handle == nullptr || handle == kLegacy) {
    return {.id = 0, .device = static_cast<std::uint16_t>(device_of_thread), .valid = true};
  }
  if (handle == kPerThread) {
    void*& stream = per_thread_streams[device_of_thread];
    if (streams.get(stream) == nullptr) stream = create_stream(device_of_thread, false, 0);
    handle = stream;
  }
  const StreamState* stream = streams.get(handle);
  if (stream == nullptr) return {};
  return {stream->id, stream->device, true, stream->non_blocking, stream->priority};
}

void* create_stream(int device, bool non_blocking, int priority) noexcept {
  const auto id = static_cast<std::uint32_t>(next_number(Numbering::Stream));
  void* handle = streams.create({id, static_cast<std::uint16_t>(device), non_blocking, priority});
  if (handle == nullptr) return nullptr;
  Record record{};
  record.kind = RecordKind::StreamCreate;
  record.flags = non_blocking ? kStreamNonBlocking : 0;
  record.device = static_cast<std::uint16_t>(device);
  record.stream = id;
  record.arg[StreamCreateArg::Priority] = static_cast<std::uint64_t>(static_cast<std::int64_t>(priority));
  emit(record);
  return handle;
}

bool destroy_stream(void* handle) noexcept {
  const StreamState* stream = streams.get(handle);
  if (stream == nullptr) return false;
  Record record{};
  record.kind = RecordKind::StreamDestroy;
  record.device = stream->device;
  record.stream = stream->id;
  emit(record);
  return streams.destroy(handle);
}

void destroy_streams_and_events(int device) noexcept {
  std::vector<void*> of_device;
  const auto collect = [&](void* handle, const auto& state) {
    if (state.device == device) of_device.push_back(handle);
  };
  streams.for_each(collect);
  for (void* stream : std::exchange(of_device, {})) destroy_stream(stream);
  events.for_each(collect);
  for (void* event : of_device) destroy_event(event);
}

void* create_event(bool timing) noexcept { return events.create({device_of_thread, timing, 0, {}, nullptr}); }

bool destroy_event(void* handle) noexcept {
  const EventState* event = events.get(handle);
  if (event != nullptr) release_instance(*event);
  return events.destroy(handle);
}

EventRef resolve_event(const void* handle) noexcept {
  EventState* event = events.get(handle);
  if (event == nullptr) return {};
  const std::lock_guard lock(event_fields);
  return {true, event->device, event->timing, event->instance, event->stream, event->captured};
}

bool record_event(void* handle, StreamRef stream) noexcept {
  EventState* event = events.get(handle);
  if (event == nullptr) return false;
  if (auto captured = capture_mark(stream)) {
    const std::lock_guard lock(event_fields);
    event->captured = std::move(captured);
    return true;
  }
  if (!attached()) ensure_context(stream.device);
  become_driver();
  Record record{};
  record.kind = RecordKind::EventRecord;
  record.device = stream.device;
  record.stream = stream.id;
  record.flags = event->timing ? 0 : kEventUntimed;
  // Instances stand in the record stream in their order, and nobody asks for one that does not stand there yet.
  const std::lock_guard order(recording);
  release_instance(*event);
  record.arg[EventRecordArg::Instance] = next_number(Numbering::Event);
  take_released(std::span(record.arg).subspan<EventRecordArg::Released>());
  emit(record);
  const std::lock_guard lock(event_fields);
  event->instance = record.arg[EventRecordArg::Instance];
  event->stream = stream;
  event->captured = nullptr;
  return true;
}

std::uint64_t record_instance(StreamRef stream) noexcept {
  Record record{};
  record.kind = RecordKind::EventRecord;
  record.device = stream.device;
  record.stream = stream.id;
  record.flags = kEventUntimed;
  const std::lock_guard order(recording);
  record.arg[EventRecordArg::Instance] = next_number(Numbering::Event);
  take_released(std::span(record.arg).subspan<EventRecordArg::Released>());
  emit(record);
  return record.arg[EventRecordArg::Instance];
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
