// Allocation, copies, fills and facts about pointers.
#include "shim/cuda/driver.h"
#include "shim/graph/graph_nodes.h"
#include "shim/memory/managed.h"
#include "shim/streams/copies.h"
#include "shim/waiting/host_waits.h"

using namespace ph;
using namespace ph::driver;

namespace {

CUresult copy(void* destination, const void* source, std::size_t bytes, CUstream handle, bool synchronous) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  if (bytes == 0) return CUDA_SUCCESS;
  if (!can_copy(destination, bytes, source, bytes, bytes, 1)) return CUDA_ERROR_INVALID_VALUE;
  synchronous ? copy_sync(destination, source, bytes, stream) : copy_async(destination, source, bytes, stream);
  return CUDA_SUCCESS;
}

CUresult fill(CUdeviceptr address, unsigned value, std::size_t element_bytes, std::size_t count,
              CUstream handle) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  if (count == 0) return CUDA_SUCCESS;
  if (address % element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!can_fill(to_pointer(address), element_bytes, count)) return CUDA_ERROR_INVALID_VALUE;
  fill_async(to_pointer(address), value, element_bytes, count, stream);
  return CUDA_SUCCESS;
}

CUresult fill(CUdeviceptr address, unsigned value, std::size_t element_bytes, const Rows& rows,
              CUstream handle) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  const bool rows_fit =
      rows.height <= 1 || (rows.pitch % element_bytes == 0 && rows.width <= rows.pitch / element_bytes);
  if (!rows_fit || address % element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!can_fill_rows(to_pointer(address), element_bytes, rows)) return CUDA_ERROR_INVALID_VALUE;
  fill_rows(to_pointer(address), value, element_bytes, rows, stream);
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes) noexcept {
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *address = to_address(allocate_device(current_device(), bytes));
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult allocate_host(void** pointer, std::size_t bytes) noexcept {
  if (!pointer || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *pointer = allocate_pinned(bytes);
  return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// Array copies are not modelled: both ends must be linear memory.
CUresult copy_rows(const CUDA_MEMCPY2D* of, CUstream handle, bool synchronous) noexcept {
  if (!of) return CUDA_ERROR_INVALID_VALUE;
  if (of->srcMemoryType == CU_MEMORYTYPE_ARRAY || of->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  PH_RESOLVE_STREAM(stream, handle);
  const void* source = of->srcMemoryType == CU_MEMORYTYPE_HOST ? of->srcHost : to_pointer(of->srcDevice);
  void* destination = of->dstMemoryType == CU_MEMORYTYPE_HOST ? of->dstHost : to_pointer(of->dstDevice);
  if (!destination || !source) return CUDA_ERROR_INVALID_VALUE;
  auto* to = static_cast<char*>(destination) + of->dstY * of->dstPitch + of->dstXInBytes;
  const auto* from = static_cast<const char*>(source) + of->srcY * of->srcPitch + of->srcXInBytes;
  if (!can_copy(to, of->dstPitch, from, of->srcPitch, of->WidthInBytes, of->Height)) return CUDA_ERROR_INVALID_VALUE;
  copy_2d(to, of->dstPitch, from, of->srcPitch, of->WidthInBytes, of->Height, stream, synchronous);
  return synchronous ? result_of("cuMemcpy", calls::after_wait()) : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) noexcept {
  PH_CALL(cuMemAlloc_v2, HostCost::Alloc);
  PH_CHECK_CAPTURE(check_unsafe_call());
  return allocate(address, bytes);
}

// Rows start at multiples of 512 bytes, as on current GPUs (CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT).
PH_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                                      unsigned) noexcept {
  PH_CALL(cuMemAllocPitch_v2, HostCost::Alloc);
  if (!pitch || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return allocate(address, *pitch * height);
}

PH_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) noexcept {
  PH_CALL(cuMemFree_v2, HostCost::Alloc);
  if (!address) return CUDA_SUCCESS;
  PH_CHECK_CAPTURE(check_unsafe_call());
  if (is_managed(to_pointer(address))) {
    wait_device(current_device());
    return free_managed(to_pointer(address)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  Allocation allocation;
  if (!find_allocation(to_pointer(address), allocation) || allocation.device < 0) return CUDA_ERROR_INVALID_VALUE;
  wait_device(allocation.device);
  if (free_graph_memory(to_pointer(address))) return CUDA_SUCCESS;
  return free_device(to_pointer(address)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Stream-ordered allocation takes and gives memory when it is called, not when the stream gets there.
PH_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) noexcept {
  PH_CALL(cuMemAllocAsync, HostCost::Alloc);
  PH_RESOLVE_STREAM(stream, handle);
  if (capture_info(stream).status == CaptureStatus::None) return allocate(address, bytes);
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  capture_work(stream, NodeKind::Allocate, [](StreamRef) {});
  *address = to_address(allocate_for_graph(capture_info(stream).graph, stream.device, bytes));
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

PH_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) noexcept {
  PH_CALL(cuMemFreeAsync, HostCost::Alloc);
  PH_RESOLVE_STREAM(stream, handle);
  if (capture_info(stream).status == CaptureStatus::Active) {
    if (!free_graph_memory(to_pointer(address))) return CUDA_ERROR_INVALID_VALUE;
    capture_work(stream, NodeKind::Free, [](StreamRef) {});
    return CUDA_SUCCESS;
  }
  if (free_graph_memory(to_pointer(address))) return CUDA_SUCCESS;
  return free_device(to_pointer(address)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) noexcept {
  PH_CALL(cuMemAllocHost_v2, HostCost::None);
  return allocate_host(pointer, bytes);
}

PH_EXPORT CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) noexcept {
  PH_CALL(cuMemHostAlloc, HostCost::None);
  return allocate_host(pointer, bytes);
}

PH_EXPORT CUresult cuMemFreeHost(void* pointer) noexcept {
  PH_CALL(cuMemFreeHost, HostCost::None);
  return free_pinned(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned) noexcept {
  PH_CALL(cuMemHostRegister_v2, HostCost::Alloc);
  if (!pointer || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return register_pinned(pointer, bytes) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

PH_EXPORT CUresult cuMemHostUnregister(void* pointer) noexcept {
  PH_CALL(cuMemHostUnregister, HostCost::Alloc);
  return unregister_pinned(pointer) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

PH_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned) noexcept {
  PH_CALL(cuMemHostGetDevicePointer_v2);
  Allocation allocation;
  if (!address || !find_allocation(pointer, allocation)) return CUDA_ERROR_INVALID_VALUE;
  show_to_device(pointer);
  *address = to_address(pointer);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) noexcept {
  PH_CALL(cuMemGetInfo_v2);
  if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  std::size_t available = 0, total = 0;
  memory_info(current_device(), available, total);
  if (free_bytes) *free_bytes = available;
  if (total_bytes) *total_bytes = total;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) noexcept {
  PH_CALL(cuMemGetAddressRange_v2);
  Allocation allocation;
  if (!find_allocation(to_pointer(address), allocation)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = allocation.base;
  if (bytes) *bytes = allocation.bytes;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t bytes) noexcept {
  PH_CALL(cuMemcpy, HostCost::Copy);
  return copy(to_pointer(destination), to_pointer(source), bytes, nullptr, true);
}

PH_EXPORT CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) noexcept {
  PH_CALL(cuMemcpyAsync, HostCost::Copy);
  return copy(to_pointer(destination), to_pointer(source), bytes, stream, false);
}

PH_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void* source, size_t bytes) noexcept {
  PH_CALL(cuMemcpyHtoD_v2, HostCost::Copy);
  return copy(to_pointer(destination), source, bytes, nullptr, true);
}

PH_EXPORT CUresult cuMemcpyDtoH_v2(void* destination, CUdeviceptr source, size_t bytes) noexcept {
  PH_CALL(cuMemcpyDtoH_v2, HostCost::Copy);
  return copy(destination, to_pointer(source), bytes, nullptr, true);
}

PH_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes) noexcept {
  PH_CALL(cuMemcpyDtoD_v2, HostCost::Copy);
  return copy(to_pointer(destination), to_pointer(source), bytes, nullptr, true);
}

PH_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void* source, size_t bytes,
                                        CUstream stream) noexcept {
  PH_CALL(cuMemcpyHtoDAsync_v2, HostCost::Copy);
  return copy(to_pointer(destination), source, bytes, stream, false);
}

PH_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) noexcept {
  PH_CALL(cuMemcpyDtoHAsync_v2, HostCost::Copy);
  return copy(destination, to_pointer(source), bytes, stream, false);
}

PH_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
                                        CUstream stream) noexcept {
  PH_CALL(cuMemcpyDtoDAsync_v2, HostCost::Copy);
  return copy(to_pointer(destination), to_pointer(source), bytes, stream, false);
}

PH_EXPORT CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext,
                                size_t bytes) noexcept {
  PH_CALL(cuMemcpyPeer, HostCost::Copy);
  return copy(to_pointer(destination), to_pointer(source), bytes, nullptr, true);
}

PH_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext, size_t bytes,
                                     CUstream stream) noexcept {
  PH_CALL(cuMemcpyPeerAsync, HostCost::Copy);
  return copy(to_pointer(destination), to_pointer(source), bytes, stream, false);
}

PH_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* of) noexcept {
  PH_CALL(cuMemcpy2D_v2, HostCost::Copy);
  return copy_rows(of, nullptr, true);
}

PH_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* of) noexcept {
  PH_CALL(cuMemcpy2DUnaligned_v2, HostCost::Copy);
  return copy_rows(of, nullptr, true);
}

PH_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* of, CUstream stream) noexcept {
  PH_CALL(cuMemcpy2DAsync_v2, HostCost::Copy);
  return copy_rows(of, stream, false);
}

#define PH_FILL(bits, T, suffix)                                                                                       \
  PH_EXPORT CUresult cuMemsetD##bits##suffix(CUdeviceptr address, T value, size_t count) noexcept {                    \
    PH_CALL(cuMemsetD##bits##suffix, HostCost::Copy);                                                                  \
    return fill(address, value, sizeof(T), count, nullptr);                                                            \
  }                                                                                                                    \
  PH_EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr address, T value, size_t count, CUstream stream) noexcept {    \
    PH_CALL(cuMemsetD##bits##Async, HostCost::Copy);                                                                   \
    return fill(address, value, sizeof(T), count, stream);                                                             \
  }                                                                                                                    \
  PH_EXPORT CUresult cuMemsetD2D##bits##suffix(CUdeviceptr address, size_t pitch, T value, size_t width,               \
                                               size_t height) noexcept {                                               \
    PH_CALL(cuMemsetD2D##bits##suffix, HostCost::Copy);                                                                \
    return fill(address, value, sizeof(T), {.pitch = pitch, .width = width, .height = height}, nullptr);               \
  }                                                                                                                    \
  PH_EXPORT CUresult cuMemsetD2D##bits##Async(CUdeviceptr address, size_t pitch, T value, size_t width, size_t height, \
                                              CUstream stream) noexcept {                                              \
    PH_CALL(cuMemsetD2D##bits##Async, HostCost::Copy);                                                                 \
    return fill(address, value, sizeof(T), {.pitch = pitch, .width = width, .height = height}, stream);                \
  }

PH_FILL(8, unsigned char, _v2)
PH_FILL(16, unsigned short, _v2)
PH_FILL(32, unsigned int, _v2)

}  // extern "C"
