// Managed memory: allocation, advice, prefetches, what a range is.
#include "shim/calls/managed_calls.h"
#include "shim/cudart/cudart.h"

using namespace ph;
using namespace ph::cudart;

namespace {

calls::Location told(cudaMemLocation location) noexcept { return {static_cast<int>(location.type), location.id}; }

}  // namespace

extern "C" {

PH_EXPORT cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned flags) noexcept {
  PH_CALL(cudaMallocManaged, HostCost::Alloc);
  PH_CHECK_CAPTURE(check_unsafe_call());
  return returned("cudaMallocManaged", calls::allocate_managed(pointer, bytes, flags));
}

PH_EXPORT cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, cudaMemLocation location,
                                           unsigned flags, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemPrefetchAsync, HostCost::Copy);
  return returned("cudaMemPrefetchAsync", calls::prefetch(pointer, bytes, told(location), flags, stream));
}

PH_EXPORT cudaError_t cudaMemAdvise(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice,
                                    cudaMemLocation location) noexcept {
  PH_CALL(cudaMemAdvise);
  return returned("cudaMemAdvise", calls::advise(pointer, bytes, advice, told(location)));
}

PH_EXPORT cudaError_t cudaMemRangeGetAttribute(void* data, std::size_t data_bytes, cudaMemRangeAttribute attribute,
                                               const void* pointer, std::size_t bytes) noexcept {
  PH_CALL(cudaMemRangeGetAttribute);
  return returned("cudaMemRangeGetAttribute", calls::range_attribute(data, data_bytes, attribute, pointer, bytes));
}

PH_EXPORT cudaError_t cudaMemRangeGetAttributes(void** data, std::size_t* data_bytes, cudaMemRangeAttribute* attributes,
                                                std::size_t count, const void* pointer, std::size_t bytes) noexcept {
  PH_CALL(cudaMemRangeGetAttributes);
  return returned("cudaMemRangeGetAttributes",
                  calls::range_attributes(data, data_bytes, attributes, count, pointer, bytes));
}

PH_EXPORT cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, std::size_t bytes,
                                               unsigned flags) noexcept {
  PH_CALL(cudaStreamAttachMemAsync);
  return returned("cudaStreamAttachMemAsync", calls::attach_memory(stream, pointer, bytes, flags));
}

}  // extern "C"
