// Managed memory: allocation, advice, prefetches, what a range is.
#include "shim/calls/managed_calls.h"
#include "shim/cuda/driver.h"

#undef cuMemAdvise  // the header makes it _v2
#undef cuMemPrefetchAsync

using namespace ph;
using namespace ph::driver;

namespace {

calls::Location told(CUmemLocation location) noexcept { return {static_cast<int>(location.type), location.id}; }

}  // namespace

extern "C" {

PH_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) noexcept {
  PH_CALL(cuMemAllocManaged, HostCost::Alloc);
  PH_CHECK_CAPTURE(check_unsafe_call());
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  const CUresult result = result_of("cuMemAllocManaged", calls::allocate_managed(&pointer, bytes, flags));
  if (result == CUDA_SUCCESS) *address = to_address(pointer);
  return result;
}

PH_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) noexcept {
  PH_CALL(cuMemPrefetchAsync, HostCost::Copy);
  return result_of("cuMemPrefetchAsync",
                   calls::prefetch(to_pointer(address), bytes, calls::location_of(device), 0, stream));
}

PH_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                                         CUstream stream) noexcept {
  PH_CALL(cuMemPrefetchAsync_v2, HostCost::Copy);
  return result_of("cuMemPrefetchAsync_v2", calls::prefetch(to_pointer(address), bytes, told(location), flags, stream));
}

PH_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) noexcept {
  PH_CALL(cuMemAdvise);
  return result_of("cuMemAdvise", calls::advise(to_pointer(address), bytes, advice, calls::location_of(device)));
}

PH_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                                  CUmemLocation location) noexcept {
  PH_CALL(cuMemAdvise_v2);
  return result_of("cuMemAdvise_v2", calls::advise(to_pointer(address), bytes, advice, told(location)));
}

PH_EXPORT CUresult cuMemRangeGetAttribute(void* data, size_t data_bytes, CUmem_range_attribute attribute,
                                          CUdeviceptr address, size_t bytes) noexcept {
  PH_CALL(cuMemRangeGetAttribute);
  return result_of("cuMemRangeGetAttribute",
                   calls::range_attribute(data, data_bytes, attribute, to_pointer(address), bytes));
}

PH_EXPORT CUresult cuMemRangeGetAttributes(void** data, size_t* data_bytes, CUmem_range_attribute* attributes,
                                           size_t count, CUdeviceptr address, size_t bytes) noexcept {
  PH_CALL(cuMemRangeGetAttributes);
  return result_of("cuMemRangeGetAttributes",
                   calls::range_attributes(data, data_bytes, attributes, count, to_pointer(address), bytes));
}

PH_EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags) noexcept {
  PH_CALL(cuStreamAttachMemAsync);
  return result_of("cuStreamAttachMemAsync", calls::attach_memory(stream, to_pointer(address), bytes, flags));
}

}  // extern "C"
