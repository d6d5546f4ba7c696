#include "shim/calls/managed_calls.h"

#include <algorithm>
#include <cstring>

#include "shim/core/visible_devices.h"
#include "shim/memory/managed.h"

namespace ph::calls {

namespace {

// cudaMemLocationType, CUmemLocationType.
constexpr int kInvalid = 0;
constexpr int kDevice = 1;
constexpr int kHost = 2;
constexpr int kHostNuma = 3;
constexpr int kHostNumaCurrent = 4;

// cudaMemAttachGlobal, CU_MEM_ATTACH_GLOBAL, and so on.
constexpr unsigned kGlobal = 1;
constexpr unsigned kAttachedHost = 2;
constexpr unsigned kSingle = 4;

// cudaMemRangeAttribute, CUmem_range_attribute.
enum Attribute : int {
  kReadMostly = 1,
  kPreferredLocation = 2,
  kAccessedBy = 3,
  kLastPrefetch = 4,
  kPreferredType = 5,
  kPreferredId = 6,
  kLastPrefetchType = 7,
  kLastPrefetchId = 8,
};

// The host has one place, whatever its nodes.
Status find_place(Location location, bool takes_nodes, int& place) noexcept {
  switch (location.type) {
    case kDevice: place = location.id; return is_visible(place) ? Status::Success : Status::InvalidDevice;
    case kHostNuma:
    case kHostNumaCurrent:
      if (!takes_nodes) return Status::InvalidValue;
      [[fallthrough]];
    case kHost: place = kHostPlace; return Status::Success;
    default: return Status::InvalidValue;
  }
}

int type_of(int place) noexcept {
  if (place == kNoPlace) return kInvalid;
  return place == kHostPlace ? kHost : kDevice;
}

bool is_range(const void* pointer, std::size_t bytes) noexcept { return bytes != 0 && is_managed(pointer, bytes); }

Status give_accessed_by(void* data, std::size_t data_bytes, const std::vector<int>& accessed_by) noexcept {
  if (data_bytes == 0 || data_bytes % sizeof(int) != 0) return Status::InvalidValue;
  auto* places = static_cast<int*>(data);
  const std::size_t room = data_bytes / sizeof(int);
  for (std::size_t i = 0; i < room; ++i) places[i] = i < accessed_by.size() ? accessed_by[i] : kNoPlace;
  return Status::Success;
}

}  // namespace

Location location_of(int device) noexcept {
  return device == kHostPlace ? Location{kHost, 0} : Location{kDevice, device};
}

Status allocate_managed(void** pointer, std::size_t bytes, unsigned flags) noexcept {
  if (pointer == nullptr || bytes == 0 || (flags != kGlobal && flags != kAttachedHost)) return Status::InvalidValue;
  ensure_context(current_device());
  *pointer = ph::allocate_managed(bytes);
  return *pointer != nullptr ? Status::Success : Status::OutOfMemory;
}

Status prefetch(const void* pointer, std::size_t bytes, Location location, unsigned flags, void* handle) noexcept {
  const StreamRef stream = resolve_stream(handle);
  if (!stream.valid) return Status::InvalidHandle;
  int place = kNoPlace;
  if (flags != 0 || !is_range(pointer, bytes)) return Status::InvalidValue;
  if (const Status status = find_place(location, true, place); status != Status::Success) return status;
  if (capture_info(stream).status != CaptureStatus::None) return Status::IntoCapture;
  if (place >= 0) ensure_context(place);
  enter_queue(stream);
  prefetch_managed(pointer, bytes, place, stream);
  return Status::Success;
}

Status advise(const void* pointer, std::size_t bytes, int advice, Location location) noexcept {
  const auto given = static_cast<Advice>(advice);
  if (given < Advice::ReadMostly || given > Advice::NotAccessedBy || !is_range(pointer, bytes))
    return Status::InvalidValue;
  const bool is_about_access = given == Advice::AccessedBy || given == Advice::NotAccessedBy;
  int place = kNoPlace;
  if (given == Advice::Preferred || is_about_access) {
    if (const Status status = find_place(location, !is_about_access, place); status != Status::Success) return status;
  }
  advise_managed(pointer, bytes, given, place);
  return Status::Success;
}

Status range_attribute(void* data, std::size_t data_bytes, int attribute, const void* pointer,
                       std::size_t bytes) noexcept {
  if (data == nullptr || !is_range(pointer, bytes)) return Status::InvalidValue;
  const ManagedFacts facts = managed_facts(pointer, bytes);
  int answer = 0;
  switch (attribute) {
    case kReadMostly: answer = facts.read_mostly ? 1 : 0; break;
    case kPreferredLocation:
    case kPreferredId: answer = facts.preferred; break;
    case kLastPrefetch:
    case kLastPrefetchId: answer = facts.prefetched; break;
    case kPreferredType: answer = type_of(facts.preferred); break;
    case kLastPrefetchType: answer = type_of(facts.prefetched); break;
    case kAccessedBy: return give_accessed_by(data, data_bytes, facts.accessed_by);
    default: return Status::InvalidValue;
  }
  if (data_bytes != sizeof answer) return Status::InvalidValue;
  std::memcpy(data, &answer, sizeof answer);
  return Status::Success;
}

Status attach_memory(void* handle, const void* pointer, std::size_t bytes, unsigned flags) noexcept {
  const StreamRef stream = resolve_stream(handle);
  if (!stream.valid) return Status::InvalidHandle;
  const bool is_flag = flags == kGlobal || flags == kAttachedHost || flags == kSingle;
  return is_flag && is_managed(pointer, std::max<std::size_t>(bytes, 1)) ? Status::Success : Status::InvalidValue;
}

}  // namespace ph::calls
