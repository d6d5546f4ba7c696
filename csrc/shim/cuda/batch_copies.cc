// Many copies in one call. The form of CUDA 12 also asks which of them was wrong.
#include "shim/calls/batch_copies.h"

#include "shim/cuda/driver.h"

using namespace ph;
using namespace ph::driver;

#undef cuMemcpyBatchAsync

namespace {

using Copies = calls::Batch<CUdeviceptr, CUdeviceptr, CUmemcpyAttributes>;

}  // namespace

extern "C" {

PH_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* bytes, size_t count,
                                      CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                      size_t* failed, CUstream stream) noexcept {
  PH_CALL(cuMemcpyBatchAsync, HostCost::Copy);
  PH_RESOLVE_STREAM(resolved, stream);
  const Copies copies = {destinations, sources, bytes, count, attributes, firsts, attribute_count};
  return result_of("cuMemcpyBatchAsync", calls::copy_batch(copies, stream, resolved, failed));
}

PH_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* bytes, size_t count,
                                         CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                         CUstream stream) noexcept {
  PH_CALL(cuMemcpyBatchAsync_v2, HostCost::Copy);
  PH_RESOLVE_STREAM(resolved, stream);
  const Copies copies = {destinations, sources, bytes, count, attributes, firsts, attribute_count};
  return result_of("cuMemcpyBatchAsync", calls::copy_batch(copies, stream, resolved, nullptr));
}

}  // extern "C"
