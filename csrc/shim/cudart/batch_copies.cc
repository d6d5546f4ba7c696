// Many copies in one call. CUDA 12 also asks which of them was wrong.
#include "shim/calls/batch_copies.h"

#include "shim/cudart/cudart.h"

using namespace ph;
using namespace ph::cudart;

namespace {

using Copies = calls::Batch<void*, const void*, cudaMemcpyAttributes>;

}  // namespace

extern "C" {

#if CUDART_VERSION < 13000
PH_EXPORT cudaError_t cudaMemcpyBatchAsync(void** destinations, void** sources, std::size_t* bytes, std::size_t count,
                                           cudaMemcpyAttributes* attributes, std::size_t* firsts,
                                           std::size_t attribute_count, std::size_t* failed,
                                           cudaStream_t stream) noexcept {
  PH_CALL(cudaMemcpyBatchAsync, HostCost::Copy);
  PH_RESOLVE_STREAM(resolved, stream);
  const Copies copies = {destinations, sources, bytes, count, attributes, firsts, attribute_count};
  return returned("cudaMemcpyBatchAsync", calls::copy_batch(copies, stream, resolved, failed));
}
#else
PH_EXPORT cudaError_t cudaMemcpyBatchAsync(void* const* destinations, const void* const* sources,
                                           const std::size_t* bytes, std::size_t count,
                                           cudaMemcpyAttributes* attributes, std::size_t* firsts,
                                           std::size_t attribute_count, cudaStream_t stream) noexcept {
  PH_CALL(cudaMemcpyBatchAsync, HostCost::Copy);
  PH_RESOLVE_STREAM(resolved, stream);
  const Copies copies = {destinations, sources, bytes, count, attributes, firsts, attribute_count};
  return returned("cudaMemcpyBatchAsync", calls::copy_batch(copies, stream, resolved, nullptr));
}
#endif

}  // extern "C"
