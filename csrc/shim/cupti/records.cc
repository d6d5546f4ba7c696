// The records of activities. What no model of ours knows is 0 in them: registers but for an assumption, local memory, the
// value that memory is set to, what a call returned.
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_set>

#include <unistd.h>

#include "shim/core/config.h"
#include "shim/cupti/cupti.h"
#include "shim/cupti/kernel_facts.h"

namespace ph::cupti {

namespace {

using profiling::Activity;
using profiling::Kind;

constexpr std::uint16_t kAssumedRegisters = 32;  // as cudaFuncGetAttributes tells

template <class Record>
std::size_t put(const Record& record, std::span<std::uint8_t, kMostRecordBytes> to) noexcept {
  static_assert(sizeof record <= kMostRecordBytes);
  std::memcpy(to.data(), &record, sizeof record);
  return sizeof record;
}

// What all device work has.
template <class Record>
Record work_record(CUpti_ActivityKind kind, const Activity& activity, CUpti_ChannelType channel) noexcept {
  Record record{};
  record.kind = kind;
  record.start = timestamp(activity.start_ns);
  record.end = timestamp(activity.end_ns);
  record.deviceId = activity.device;
  record.contextId = context_number(activity.device);
  record.streamId = stream_number(activity.stream);
  record.correlationId = activity.correlation;
  record.channelType = channel;
  return record;
}

const char* kept_name(const std::string& name) {
  static std::mutex mutex;
  static auto& names = *new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

std::size_t put_kernel(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) {
  auto record = work_record<CUpti_ActivityKernel11>(kind_of_kernels(), activity, CUPTI_CHANNEL_TYPE_COMPUTE);
  record.completed = record.end;
  record.registersPerThread = kAssumedRegisters;
  record.gridX = record.gridY = record.gridZ = 1;
  record.blockX = record.blockY = record.blockZ = 1;
  if (activity.kind == Kind::Communication) {
    record.name = kept_name(activity.name);
    return put(record, to);
  }
  const KernelFacts& facts = kernel_facts(activity.detail);
  record.name = facts.name.c_str();
  record.gridX = facts.grid[0];
  record.gridY = facts.grid[1];
  record.gridZ = facts.grid[2];
  record.blockX = facts.block[0];
  record.blockY = facts.block[1];
  record.blockZ = facts.block[2];
  record.dynamicSharedMemory = facts.shared_bytes;
  return put(record, to);
}

struct CopyWords {
  CUpti_ActivityMemcpyKind kind;
  CUpti_ActivityMemoryKind from, to;
};

CopyWords words_of(const Activity& activity) noexcept {
  const auto host =
      (activity.flags & kCopyPageable) != 0 ? CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE : CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  constexpr auto device = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  switch (static_cast<CopyKind>(activity.detail)) {
    case CopyKind::HostToDevice: return {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, host, device};
    case CopyKind::DeviceToHost: return {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, device, host};
    case CopyKind::DeviceToDevice: return {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, device, device};
    case CopyKind::PeerToPeer: return {CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, device, device};
    case CopyKind::HostToHost: break;
  }
  return {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, host, host};
}

template <class Record>
Record copy_record(CUpti_ActivityKind kind, const Activity& activity) noexcept {
  auto record = work_record<Record>(kind, activity, CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY);
  const CopyWords words = words_of(activity);
  record.copyKind = static_cast<std::uint8_t>(words.kind);
  record.srcKind = static_cast<std::uint8_t>(words.from);
  record.dstKind = static_cast<std::uint8_t>(words.to);
  record.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  record.bytes = activity.amount;
  return record;
}

std::size_t put_copy(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) noexcept {
  if (static_cast<CopyKind>(activity.detail) != CopyKind::PeerToPeer) {
    auto record = copy_record<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, activity);
    record.copyCount = 1;
    return put(record, to);
  }
  // Between which GPUs is not told here: both are the one whose stream it is on.
  auto record = copy_record<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, activity);
  record.srcDeviceId = record.dstDeviceId = record.deviceId;
  record.srcContextId = record.dstContextId = record.contextId;
  return put(record, to);
}

std::size_t put_fill(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) noexcept {
  auto record = work_record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, activity, CUPTI_CHANNEL_TYPE_COMPUTE);
  record.bytes = activity.amount;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  return put(record, to);
}

std::size_t put_call(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) noexcept {
  const CUpti_CallbackId callback = callback_id(activity.kind, activity.call);
  if (callback == 0 || !wants_call(activity.kind, callback)) return 0;
  CUpti_ActivityAPI record{};
  record.kind = activity.kind == Kind::Driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  record.cbid = callback;
  record.start = timestamp(activity.start_ns);
  record.end = timestamp(activity.end_ns);
  record.processId = static_cast<std::uint32_t>(getpid());
  record.threadId = static_cast<std::uint32_t>(activity.thread);
  record.correlationId = activity.correlation;
  return put(record, to);
}

std::size_t put_wait(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) noexcept {
  CUpti_ActivitySynchronization2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = static_cast<CUpti_ActivitySynchronizationType>(activity.detail);
  const bool of_context = record.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  const bool of_event = activity.amount != 0;
  record.start = timestamp(activity.start_ns);
  record.end = timestamp(activity.end_ns);
  record.correlationId = activity.correlation;
  record.contextId = context_number(activity.device);
  record.streamId = of_context ? CUPTI_SYNCHRONIZATION_INVALID_VALUE : stream_number(activity.stream);
  record.cudaEventId = of_event ? static_cast<std::uint32_t>(activity.amount) : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  record.cudaEventSyncId = activity.amount;
  return put(record, to);
}

std::size_t put_event(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) noexcept {
  CUpti_ActivityCudaEvent2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = activity.correlation;
  record.contextId = context_number(activity.device);
  record.streamId = stream_number(activity.stream);
  record.eventId = static_cast<std::uint32_t>(activity.amount);
  record.deviceId = activity.device;
  record.deviceTimestamp = timestamp(activity.start_ns);
  record.cudaEventSyncId = activity.amount;
  return put(record, to);
}

std::size_t put_external(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) noexcept {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = static_cast<CUpti_ExternalCorrelationKind>(activity.detail);
  record.externalId = activity.amount;
  record.correlationId = activity.correlation;
  return put(record, to);
}

}  // namespace

std::size_t record_bytes(CUpti_ActivityKind kind) noexcept {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel11);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    default: return 0;
  }
}

std::size_t write_record(const Activity& activity, std::span<std::uint8_t, kMostRecordBytes> to) {
  switch (activity.kind) {
    case Kind::Runtime:
    case Kind::Driver: return put_call(activity, to);
    case Kind::Kernel:
    case Kind::Communication: return put_kernel(activity, to);
    case Kind::Copy: return put_copy(activity, to);
    case Kind::Fill: return put_fill(activity, to);
    case Kind::Wait: return put_wait(activity, to);
    case Kind::EventRecord: return put_event(activity, to);
    case Kind::External: return put_external(activity, to);
  }
  return 0;
}

}  // namespace ph::cupti
