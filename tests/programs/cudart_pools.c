/* covers: cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool cudaMallocAsync cudaMallocFromPoolAsync cudaFreeAsync
   cudaMemPoolGetAttribute cudaMemPoolSetAttribute cudaMemPoolSetAccess cudaMemPoolTrimTo
   cudaDeviceGetGraphMemAttribute cudaDeviceSetGraphMemAttribute */
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

enum { BYTES = 64 << 20 };

static uint64_t read_bytes(cudaMemPool_t pool, enum cudaMemPoolAttr attribute) {
  uint64_t bytes = 0;
  OK(cudaMemPoolGetAttribute(pool, attribute, &bytes));
  return bytes;
}

/* `left`: what the pool still counts of earlier calls. */
static void check_allocation(cudaMemPool_t pool, cudaStream_t stream, uint64_t left) {
  char *first, *second, value = 0;
  struct cudaPointerAttributes of;
  uint64_t zero = 0;
  OK(cudaMallocAsync((void**)&first, BYTES, stream));
  OK(cudaMallocFromPoolAsync((void**)&second, BYTES, pool, stream));
  CHECK(read_bytes(pool, cudaMemPoolAttrUsedMemCurrent) >= 2 * BYTES);
  CHECK(read_bytes(pool, cudaMemPoolAttrReservedMemCurrent) >= 2 * BYTES);
  OK(cudaMemsetAsync(first, 7, 4096, stream));
  OK(cudaMemcpyAsync(second, first, 4096, cudaMemcpyDeviceToDevice, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaPointerGetAttributes(&of, first));
  CHECK(of.type == cudaMemoryTypeDevice);
  OK(cudaMemcpy(&value, second + 4095, 1, cudaMemcpyDeviceToHost));
  CHECK(value == 7);
  OK(cudaFreeAsync(first, stream));
  OK(cudaStreamSynchronize(stream));
  left += BYTES;
  EXPECT(read_bytes(pool, cudaMemPoolAttrUsedMemCurrent), left);
  OK(cudaFree(second)); /* takes memory of a pool too, which goes on counting it */
  OK(cudaDeviceSynchronize());
  EXPECT(read_bytes(pool, cudaMemPoolAttrUsedMemCurrent), left);
  OK(cudaMemPoolTrimTo(pool, 0));
  EXPECT(read_bytes(pool, cudaMemPoolAttrUsedMemCurrent), left);
  EXPECT(read_bytes(pool, cudaMemPoolAttrReservedMemCurrent), 0); /* nothing of it is left all the same */
  CHECK(read_bytes(pool, cudaMemPoolAttrUsedMemHigh) >= 2 * BYTES);
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
  EXPECT(read_bytes(pool, cudaMemPoolAttrUsedMemHigh), left);
}

static void check_settings(cudaMemPool_t pool) {
  uint64_t threshold = UINT64_MAX, high = 1;
  int enabled = 0;
  struct cudaMemAccessDesc access = {{.type = cudaMemLocationTypeDevice, .id = 0}, cudaMemAccessFlagsProtReadWrite};
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  CHECK(read_bytes(pool, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX);
  threshold = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &enabled));
  enabled = 9;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &enabled));
  CHECK(enabled == 0);
  OK(cudaMemPoolSetAccess(pool, &access, 1));
  EXPECT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high), cudaErrorInvalidValue);
  EXPECT(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)1000, &high), cudaErrorInvalidValue);
}

/* No graph of this program has taken memory. */
static void check_graphs(void) {
  uint64_t bytes = 1, one = 1;
  OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes));
  CHECK(bytes == 0);
  OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &bytes));
  EXPECT(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &one), cudaErrorInvalidValue);
}

static void check_misuse(cudaStream_t stream) {
  size_t available, total;
  void* memory;
  cudaMemPool_t pool;
  OK(cudaMemGetInfo(&available, &total));
  EXPECT(cudaMallocAsync(&memory, total + 1, stream), cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT(cudaMallocAsync(NULL, 1, stream), cudaErrorInvalidValue);
  EXPECT(cudaDeviceGetDefaultMemPool(&pool, 1000), cudaErrorInvalidDevice);
  EXPECT(cudaDeviceGetDefaultMemPool(NULL, 0), cudaErrorInvalidValue);
  EXPECT(cudaMallocFromPoolAsync(&memory, 1, NULL, stream), cudaErrorInvalidValue);
}

int main(void) {
  cudaMemPool_t pool, current;
  cudaStream_t stream;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaDeviceGetMemPool(&current, 0));
  CHECK(pool == current);
  OK(cudaStreamCreate(&stream));
  check_allocation(pool, stream, 0);
  check_allocation(pool, NULL, BYTES);
  check_allocation(pool, stream, 2 * BYTES);
  check_settings(pool);
  check_graphs();
  check_misuse(stream);
  OK(cudaStreamDestroy(stream));
  return differences;
}
