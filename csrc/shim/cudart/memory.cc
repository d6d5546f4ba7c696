// Allocation, pointer attributes, copies, fills.
#include "shim/cudart/cudart.h"

#include "shim/core/config.h"
#include "shim/graph/graph_nodes.h"
#include "shim/memory/managed.h"
#include "shim/streams/copies.h"
#include "shim/waiting/host_waits.h"

using namespace ph;
using namespace ph::cudart;

namespace {

// The direction that the program names must fit what the pointers are; the pointers decide, as with unified addressing.
bool is_direction(cudaMemcpyKind kind) noexcept { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

// Pinned memory has an address on the device, too.
bool is_on_device(const void* pointer) noexcept {
  Allocation allocation;
  return is_device_pointer(pointer) || (find_allocation(pointer, allocation) && allocation.device < 0);
}

bool direction_fits(cudaMemcpyKind kind, const void* destination, const void* source) noexcept {
  switch (kind) {
    case cudaMemcpyHostToDevice: return is_on_device(destination);
    case cudaMemcpyDeviceToHost: return is_on_device(source);
    case cudaMemcpyDeviceToDevice: return is_on_device(destination) && is_on_device(source);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return true;
  }
  return false;
}

cudaError_t copy_rows(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
                      std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t handle,
                      bool synchronous) noexcept {
  if (synchronous) PH_CHECK_CAPTURE(check_unsafe_call());
  PH_RESOLVE_STREAM(stream, handle);
  return copy_on(stream, destination, destination_pitch, source, source_pitch, width, height, kind, synchronous);
}

cudaError_t fill(void* pointer, int value, std::size_t bytes, cudaStream_t handle) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  return fill_on(stream, pointer, static_cast<unsigned char>(value), 1, bytes);
}

cudaError_t fill(void* pointer, int value, const Rows& rows, cudaStream_t handle) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  const bool rows_overlap = rows.height > 1 && rows.width > rows.pitch;
  if (rows_overlap || !can_fill_rows(pointer, 1, rows)) return returned(cudaErrorInvalidValue);
  fill_rows(pointer, static_cast<unsigned char>(value), 1, rows, stream);
  return cudaSuccess;
}

Rows rows_of(const cudaPitchedPtr& place, const cudaExtent& extent) noexcept {
  return {.pitch = place.pitch,
          .width = extent.width,
          .height = extent.height,
          .plane_pitch = place.pitch * place.ysize,
          .depth = extent.depth};
}

}  // namespace

namespace ph::cudart {

cudaError_t copy_on(StreamRef stream, void* destination, std::size_t destination_pitch, const void* source,
                    std::size_t source_pitch, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                    bool synchronous) noexcept {
  if (!is_direction(kind)) return returned(cudaErrorInvalidMemcpyDirection);
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > destination_pitch || width > source_pitch) return returned(cudaErrorInvalidPitchValue);
  if (!can_copy(destination, destination_pitch, source, source_pitch, width, height) ||
      !direction_fits(kind, destination, source)) {
    return returned(cudaErrorInvalidValue);
  }
  copy_2d(destination, destination_pitch, source, source_pitch, width, height, stream, synchronous);
  return synchronous ? returned("cudaMemcpy", calls::after_wait()) : cudaSuccess;
}

cudaError_t fill_on(StreamRef stream, void* pointer, unsigned value, std::size_t element_bytes,
                    std::size_t count) noexcept {
  if (count == 0) return cudaSuccess;
  if (!can_fill(pointer, element_bytes, count)) return returned(cudaErrorInvalidValue);
  fill_async(pointer, value, element_bytes, count, stream);
  return cudaSuccess;
}

cudaError_t copy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle,
                 bool synchronous) noexcept {
  if (synchronous) PH_CHECK_CAPTURE(check_unsafe_call());
  PH_RESOLVE_STREAM(stream, handle);
  if (bytes == 0) return cudaSuccess;
  if (!is_direction(kind)) return returned(cudaErrorInvalidMemcpyDirection);
  if (!is_writable(destination, bytes) || !is_readable(source, bytes)) return returned(cudaErrorInvalidValue);
  if (!direction_fits(kind, destination, source)) return returned(cudaErrorInvalidValue);
  synchronous ? copy_sync(destination, source, bytes, stream) : copy_async(destination, source, bytes, stream);
  return cudaSuccess;
}

}  // namespace ph::cudart

extern "C" {

PH_EXPORT cudaError_t cudaMalloc(void** pointer, std::size_t bytes) noexcept {
  PH_CALL(cudaMalloc, HostCost::Alloc);
  if (pointer == nullptr) return returned(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  PH_CHECK_CAPTURE(check_unsafe_call());
  *pointer = allocate_device(current_device(), bytes);
  return *pointer != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

PH_EXPORT cudaError_t cudaFree(void* pointer) noexcept {
  PH_CALL(cudaFree, HostCost::Alloc);
  choose_context(current_device());  // cudaFree(nullptr) is the customary way to make the context
  if (pointer == nullptr) return cudaSuccess;
  PH_CHECK_CAPTURE(check_unsafe_call());
  if (is_managed(pointer)) {
    wait_device(current_device());
    return free_managed(pointer) ? cudaSuccess : returned(cudaErrorInvalidValue);
  }
  Allocation allocation;
  if (!find_allocation(pointer, allocation) || allocation.device < 0) return returned(cudaErrorInvalidValue);
  wait_device(allocation.device);  // cudaFree waits for the device. Source: as streams/copies.h
  if (free_graph_memory(pointer)) return cudaSuccess;
  leave_pool(pointer, false);
  return free_device(pointer) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) noexcept {
  PH_CALL(cudaHostAlloc, HostCost::None);
  constexpr unsigned kFlags = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (pointer == nullptr || (flags & ~kFlags) != 0) return returned(cudaErrorInvalidValue);
  PH_CHECK_CAPTURE(check_unsafe_call());
  *pointer = allocate_pinned(bytes, __builtin_return_address(0));
  return *pointer != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

PH_EXPORT cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) noexcept {
  PH_CALL(cudaMallocHost, HostCost::None);
  return cudaHostAlloc(pointer, bytes, 0);
}

PH_EXPORT cudaError_t cudaFreeHost(void* pointer) noexcept {
  PH_CALL(cudaFreeHost, HostCost::None);
  if (pointer == nullptr) return cudaSuccess;
  PH_CHECK_CAPTURE(check_unsafe_call());
  return free_pinned(pointer) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) noexcept {
  PH_CALL(cudaHostRegister, HostCost::Alloc);
  if (pointer == nullptr || bytes == 0) return returned(cudaErrorInvalidValue);
  return register_pinned(pointer, bytes) ? cudaSuccess : returned(cudaErrorHostMemoryAlreadyRegistered);
}

PH_EXPORT cudaError_t cudaHostUnregister(void* pointer) noexcept {
  PH_CALL(cudaHostUnregister, HostCost::Alloc);
  return unregister_pinned(pointer) ? cudaSuccess : returned(cudaErrorHostMemoryNotRegistered);
}

PH_EXPORT cudaError_t cudaHostGetDevicePointer(void** address, void* pointer, unsigned flags) noexcept {
  PH_CALL(cudaHostGetDevicePointer);
  Allocation allocation;
  const bool is_pinned = find_allocation(pointer, allocation) && allocation.device < 0;
  if (address == nullptr || flags != 0 || !is_pinned) return returned(cudaErrorInvalidValue);
  show_to_device(pointer);
  *address = pointer;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) noexcept {
  PH_CALL(cudaMemGetInfo);
  std::size_t available = 0, total = 0;
  memory_info(current_device(), available, total);
  if (free_bytes != nullptr) *free_bytes = available;
  if (total_bytes != nullptr) *total_bytes = total;
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) noexcept {
  PH_CALL(cudaPointerGetAttributes);
  if (attributes == nullptr) return returned(cudaErrorInvalidValue);
  *attributes = {};
  attributes->device = -2;  // as the runtime answers for memory it does not know
  attributes->hostPointer = const_cast<void*>(pointer);
  Allocation allocation;
  if (!find_allocation(pointer, allocation)) return cudaSuccess;
  const bool on_host = allocation.device < 0;
  attributes->type = on_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = on_host ? current_device() : allocation.device;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (!on_host) attributes->hostPointer = nullptr;
  if (allocation.kind == MemoryKind::Managed) {
    attributes->type = cudaMemoryTypeManaged;
    attributes->device = managed_facts(pointer, 1).owner;
  }
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaMemcpy(void* destination, const void* source, std::size_t bytes,
                                 cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaMemcpy, HostCost::Copy);
  return copy(destination, source, bytes, kind, nullptr, true);
}

PH_EXPORT cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) noexcept {
  PH_CALL(cudaMemcpyAsync, HostCost::Copy);
  return copy(destination, source, bytes, kind, stream, false);
}

PH_EXPORT cudaError_t cudaMemcpyPeer(void* destination, int destination_device, const void* source, int source_device,
                                     std::size_t bytes) noexcept {
  PH_CALL(cudaMemcpyPeer, HostCost::Copy);
  if (!is_device(destination_device) || !is_device(source_device)) return returned(cudaErrorInvalidDevice);
  return copy(destination, source, bytes, cudaMemcpyDefault, nullptr, true);
}

PH_EXPORT cudaError_t cudaMemcpyPeerAsync(void* destination, int destination_device, const void* source,
                                          int source_device, std::size_t bytes, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemcpyPeerAsync, HostCost::Copy);
  if (!is_device(destination_device) || !is_device(source_device)) return returned(cudaErrorInvalidDevice);
  return copy(destination, source, bytes, cudaMemcpyDefault, stream, false);
}

PH_EXPORT cudaError_t cudaMemcpy2D(void* destination, std::size_t destination_pitch, const void* source,
                                   std::size_t source_pitch, std::size_t width, std::size_t height,
                                   cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaMemcpy2D, HostCost::Copy);
  return copy_rows(destination, destination_pitch, source, source_pitch, width, height, kind, nullptr, true);
}

PH_EXPORT cudaError_t cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch, const void* source,
                                        std::size_t source_pitch, std::size_t width, std::size_t height,
                                        cudaMemcpyKind kind, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemcpy2DAsync, HostCost::Copy);
  return copy_rows(destination, destination_pitch, source, source_pitch, width, height, kind, stream, false);
}

PH_EXPORT cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) noexcept {
  PH_CALL(cudaMemset, HostCost::Copy);
  return fill(pointer, value, bytes, nullptr);
}

PH_EXPORT cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemsetAsync, HostCost::Copy);
  return fill(pointer, value, bytes, stream);
}

PH_EXPORT cudaError_t cudaMemset2D(void* pointer, std::size_t pitch, int value, std::size_t width,
                                   std::size_t height) noexcept {
  PH_CALL(cudaMemset2D, HostCost::Copy);
  return fill(pointer, value, {.pitch = pitch, .width = width, .height = height}, nullptr);
}

PH_EXPORT cudaError_t cudaMemset2DAsync(void* pointer, std::size_t pitch, int value, std::size_t width,
                                        std::size_t height, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemset2DAsync, HostCost::Copy);
  return fill(pointer, value, {.pitch = pitch, .width = width, .height = height}, stream);
}

PH_EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr place, int value, cudaExtent extent) noexcept {
  PH_CALL(cudaMemset3D, HostCost::Copy);
  return fill(place.ptr, value, rows_of(place, extent), nullptr);
}

PH_EXPORT cudaError_t cudaMemset3DAsync(cudaPitchedPtr place, int value, cudaExtent extent,
                                        cudaStream_t stream) noexcept {
  PH_CALL(cudaMemset3DAsync, HostCost::Copy);
  return fill(place.ptr, value, rows_of(place, extent), stream);
}

}  // extern "C"
