/* covers: cudaDeviceReset */
#include <cuda_runtime_api.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static size_t free_bytes(void) {
  size_t unused = 0, total = 0;
  OK(cudaMemGetInfo(&unused, &total));
  return unused;
}

/* Everything that a program may leave behind at its end. */
static void leave(void** memory, cudaStream_t* stream, cudaEvent_t* event) {
  void* pooled;
  OK(cudaMalloc(memory, 64 << 20));
  OK(cudaMallocAsync(&pooled, 32 << 20, NULL));
  OK(cudaStreamCreate(stream));
  OK(cudaEventCreate(event));
  OK(cudaMemsetAsync(*memory, 0, 64 << 20, *stream));
  OK(cudaMemsetAsync(*memory, 0, 1 << 20, cudaStreamPerThread));
  OK(cudaEventRecord(*event, *stream));
}

int main(void) {
  void *memory, *again, *elsewhere = NULL;
  int devices = 0;
  cudaStream_t stream;
  cudaEvent_t event;
  OK(cudaDeviceReset()); /* of a device without a context, too */
  OK(cudaGetDeviceCount(&devices));
  OK(cudaSetDevice(devices - 1)); /* another one, if there is any: a reset leaves its memory */
  if (devices > 1) OK(cudaMalloc(&elsewhere, 1 << 20));
  OK(cudaSetDevice(0));
  const size_t before = free_bytes();
  leave(&memory, &stream, &event);
  CHECK(free_bytes() < before);
  OK(cudaDeviceReset());
  /* The first 64 MiB are free again. What a new context takes, and the vendor's pool keeps, is less. */
  EXPECT(((long)before - (long)free_bytes()) / (64 << 20), 0);
#ifdef PHANTORA_MODEL
  cudaMemPool_t pool;
  unsigned long long used = 1;
  CHECK(free_bytes() == before);
  EXPECT(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(used == 0); /* the vendor's pool goes on counting something */
#endif
  /* A new context, with everything anew. */
  leave(&again, &stream, &event);
  OK(cudaEventSynchronize(event));
  OK(cudaFree(again));
  OK(cudaDeviceReset());
  OK(cudaSetDevice(devices - 1));
  OK(cudaFree(elsewhere));
  return differences;
}
