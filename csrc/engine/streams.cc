#include "engine/streams.h"

#include <algorithm>

namespace ph {

bool Streams::create(std::uint32_t id, std::uint16_t device, bool non_blocking) {
  if (id == 0 || by_id_.contains(id)) return false;
  by_id_.emplace(id, add({id, device, !non_blocking, false, kNone}));
  return true;
}

bool Streams::forget(std::uint32_t id) { return by_id_.erase(id) == 1; }

Index Streams::find(std::uint32_t id, std::uint16_t device) {
  if (id != 0) {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? kNone : found->second;
  }
  if (device >= devices_.size()) devices_.resize(device + 1u);
  if (devices_[device].legacy == kNone) {
    const Index legacy = add({0, device, true, false, kNone});
    devices_[device].legacy = legacy;
  }
  return devices_[device].legacy;
}

Index Streams::add(const Stream& stream) {
  Index index = static_cast<Index>(streams_.size());
  if (free_.empty()) {
    streams_.push_back(stream);
  } else {
    index = free_.back();
    free_.pop_back();
    streams_[index] = stream;
  }
  if (stream.device >= devices_.size()) devices_.resize(stream.device + 1u);
  DeviceStreams& on_device = devices_[stream.device];
  on_device.all.push_back(index);
  if (stream.blocking && stream.id != 0) on_device.blocking.push_back(index);
  return index;
}

void Streams::destroy(Index stream) {
  streams_[stream].destroyed = true;
  if (streams_[stream].tail == kNone) release(stream);
}

void Streams::item_done(Index stream, Index item) {
  if (streams_[stream].tail != item) return;
  streams_[stream].tail = kNone;
  if (streams_[stream].destroyed) release(stream);
}

void Streams::release(Index stream) {
  DeviceStreams& on_device = devices_[streams_[stream].device];
  std::erase(on_device.all, stream);
  std::erase(on_device.blocking, stream);
  free_.push_back(stream);
}

}  // namespace ph
