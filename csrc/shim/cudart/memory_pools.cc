// Stream-ordered allocation, from the one pool that every device has.
//
// Memory is taken and given back when the call is made, not when the stream gets there, and the pool keeps none:
// what it reserves is what its allocations hold, whatever its release threshold. Assumed: a call costs the host as much
// as a launch.
#include "shim/cudart/cudart.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "shim/calls/device_reset.h"
#include "shim/core/addresses.h"
#include "shim/graph/graph_nodes.h"

using namespace ph;
using namespace ph::cudart;

// The runtime's own type, which its header leaves open.
struct CUmemPoolHandle_st {
  std::size_t used_bytes = 0;
  std::size_t used_high_bytes = 0;
  std::size_t reserved_bytes = 0;
  std::size_t reserved_high_bytes = 0;
  std::uint64_t release_threshold_bytes = 0;
  int reuse[3] = {1, 1, 1};  // cudaMemPoolReuse...: followed event, opportunistic, internal dependencies
};

namespace {

struct Pooled {
  cudaMemPool_t pool;
  std::size_t bytes;
};

std::mutex mutex;
CUmemPoolHandle_st pools[kMaxDevices];
auto& pooled = *new std::unordered_map<const void*, Pooled>;

bool is_pool(cudaMemPool_t pool) noexcept { return pool >= pools && pool < pools + visible_devices(); }

bool is_graph_attribute(cudaGraphMemAttributeType attribute) noexcept {
  return attribute >= cudaGraphMemAttrUsedMemCurrent && attribute <= cudaGraphMemAttrReservedMemHigh;
}

cudaError_t default_pool(cudaMemPool_t* pool, int device) noexcept {
  if (pool == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  *pool = &pools[device];
  return cudaSuccess;
}

cudaError_t allocate(void** pointer, std::size_t bytes, cudaMemPool_t pool, cudaStream_t handle) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  if (pointer == nullptr) return returned(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (pool == nullptr) pool = &pools[stream.device];
  if (capture_work(stream, NodeKind::Allocate, [](StreamRef) {})) {
    *pointer = allocate_for_graph(capture_info(stream).graph, static_cast<int>(pool - pools), bytes);
    return *pointer != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
  }
  *pointer = allocate_device(static_cast<int>(pool - pools), bytes);
  if (*pointer == nullptr) return returned(cudaErrorMemoryAllocation);
  const std::lock_guard lock(mutex);
  pooled[*pointer] = {pool, bytes};
  pool->used_bytes += bytes;
  pool->used_high_bytes = std::max(pool->used_high_bytes, pool->used_bytes);
  pool->reserved_bytes += bytes;
  pool->reserved_high_bytes = std::max(pool->reserved_high_bytes, pool->reserved_bytes);
  return cudaSuccess;
}

cudaError_t read_attribute(const CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, void* value) noexcept {
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      *static_cast<int*>(value) = pool.reuse[attribute - cudaMemPoolReuseFollowEventDependencies];
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold: *static_cast<std::uint64_t*>(value) = pool.release_threshold_bytes; break;
    case cudaMemPoolAttrReservedMemCurrent: *static_cast<std::uint64_t*>(value) = pool.reserved_bytes; break;
    case cudaMemPoolAttrUsedMemCurrent: *static_cast<std::uint64_t*>(value) = pool.used_bytes; break;
    case cudaMemPoolAttrReservedMemHigh: *static_cast<std::uint64_t*>(value) = pool.reserved_high_bytes; break;
    case cudaMemPoolAttrUsedMemHigh: *static_cast<std::uint64_t*>(value) = pool.used_high_bytes; break;
    default: return returned(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

// A high-water mark can only be set to zero, from where it starts again at what there is now.
cudaError_t reset(std::size_t& high_bytes, std::size_t bytes, const void* value) noexcept {
  if (*static_cast<const std::uint64_t*>(value) != 0) return returned(cudaErrorInvalidValue);
  high_bytes = bytes;
  return cudaSuccess;
}

cudaError_t write_attribute(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, const void* value) noexcept {
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      pool.reuse[attribute - cudaMemPoolReuseFollowEventDependencies] = *static_cast<const int*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      pool.release_threshold_bytes = *static_cast<const std::uint64_t*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh: return reset(pool.reserved_high_bytes, pool.reserved_bytes, value);
    case cudaMemPoolAttrUsedMemHigh: return reset(pool.used_high_bytes, pool.used_bytes, value);
    default: return returned(cudaErrorInvalidValue);
  }
}

[[maybe_unused]] const bool registered = calls::at_device_reset([](int device) noexcept {
  const std::lock_guard lock(mutex);
  std::erase_if(pooled, [device](const auto& entry) { return entry.second.pool == &pools[device]; });
  pools[device] = {};
});

}  // namespace

namespace ph::cudart {

void leave_pool(const void* pointer, bool is_counted) noexcept {
  const std::lock_guard lock(mutex);
  const auto entry = pooled.find(pointer);
  if (entry == pooled.end()) return;
  const auto [pool, bytes] = entry->second;
  pool->reserved_bytes -= bytes;
  if (is_counted) pool->used_bytes -= bytes;
  pooled.erase(entry);
}

}  // namespace ph::cudart

extern "C" {

PH_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) noexcept {
  PH_CALL(cudaDeviceGetDefaultMemPool);
  return default_pool(pool, device);
}

PH_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) noexcept {
  PH_CALL(cudaDeviceGetMemPool);
  return default_pool(pool, device);
}

PH_EXPORT cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) noexcept {
  PH_CALL(cudaMallocAsync, HostCost::Launch);
  return allocate(pointer, bytes, nullptr, stream);
}

PH_EXPORT cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool,
                                              cudaStream_t stream) noexcept {
  PH_CALL(cudaMallocFromPoolAsync, HostCost::Launch);
  if (!is_pool(pool)) return returned(cudaErrorInvalidValue);
  return allocate(pointer, bytes, pool, stream);
}

PH_EXPORT cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) noexcept {
  PH_CALL(cudaFreeAsync, HostCost::Launch);
  PH_RESOLVE_STREAM(stream, handle);
  if (pointer == nullptr) return cudaSuccess;
  if (capture_info(stream).status == CaptureStatus::Active) {
    if (!free_graph_memory(pointer)) return returned(cudaErrorInvalidValue);
    capture_work(stream, NodeKind::Free, [](StreamRef) {});
    return cudaSuccess;
  }
  if (free_graph_memory(pointer)) return cudaSuccess;
  leave_pool(pointer, true);
  return free_device(pointer) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) noexcept {
  PH_CALL(cudaMemPoolGetAttribute);
  if (!is_pool(pool) || value == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex);
  return read_attribute(*pool, attribute, value);
}

PH_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) noexcept {
  PH_CALL(cudaMemPoolSetAttribute);
  if (!is_pool(pool) || value == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex);
  return write_attribute(*pool, attribute, value);
}

// Every GPU of a node reaches every pool already.
PH_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* accesses,
                                           std::size_t count) noexcept {
  PH_CALL(cudaMemPoolSetAccess);
  if (!is_pool(pool) || (count > 0 && accesses == nullptr)) return returned(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < count; ++i) {
    if (accesses[i].location.type != cudaMemLocationTypeDevice) return returned(cudaErrorInvalidValue);
    if (!is_device(accesses[i].location.id)) return returned(cudaErrorInvalidDevice);
  }
  return cudaSuccess;
}

// A graph reserves what its nodes have allocated, and that is in use.
PH_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                                     void* value) noexcept {
  PH_CALL(cudaDeviceGetGraphMemAttribute);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  if (value == nullptr || !is_graph_attribute(attribute)) return returned(cudaErrorInvalidValue);
  const GraphMemory memory = graph_memory(device);
  const bool is_high = attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
  *static_cast<std::uint64_t*>(value) = is_high ? memory.high_bytes : memory.used_bytes;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                                     void* value) noexcept {
  PH_CALL(cudaDeviceSetGraphMemAttribute);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  const bool is_mark = attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
  if (value == nullptr || !is_mark || *static_cast<const std::uint64_t*>(value) != 0) {
    return returned(cudaErrorInvalidValue);
  }
  reset_graph_memory_high(device);
  return cudaSuccess;
}

// Neither graphs nor pools keep anything that could be trimmed.
PH_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) noexcept {
  PH_CALL(cudaDeviceGraphMemTrim);
  return is_device(device) ? cudaSuccess : returned(cudaErrorInvalidDevice);
}

PH_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t) noexcept {
  PH_CALL(cudaMemPoolTrimTo);
  return is_pool(pool) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

}  // extern "C"
