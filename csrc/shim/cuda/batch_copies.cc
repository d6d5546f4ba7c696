// Many copies in one call. The form of CUDA 12 also asks which of them was wrong.
#include "shim/calls/batch_copies.h"

#include "shim/cuda/driver.h"

using namespace ph;
using namespace ph::driver;

#undef cuMemcpyBatchAsync

namespace {

using Copies = calls::Batch<CUdeviceptr, CUdeviceptr, CUmemcpyAttributes>;

CUresult copy_all(const Copies& copies, CUstream handle, size_t* failed) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  return result_of("cuMemcpyBatchAsync", calls::copy_batch(copies, handle, stream, failed));
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* bytes, size_t count,
                                      CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                      size_t* failed, CUstream stream) noexcept {
  PH_CALL(cuMemcpyBatchAsync, HostCost::Copy);
  return copy_all({destinations, sources, bytes, count, attributes, firsts, attribute_count}, stream, failed);
}

PH_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* bytes, size_t count,
                                         CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                         CUstream stream) noexcept {
  PH_CALL(cuMemcpyBatchAsync_v2, HostCost::Copy);
  return copy_all({destinations, sources, bytes, count, attributes, firsts, attribute_count}, stream, nullptr);
}

}  // extern "C"
