/* covers: cudaMallocManaged cudaFree cudaMemPrefetchAsync cudaMemAdvise cudaMemRangeGetAttribute
   cudaMemRangeGetAttributes cudaPointerGetAttributes cudaStreamAttachMemAsync */
#include <cuda_runtime_api.h>
#include <string.h>

#include "program.h"
#include "registered.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static const size_t kMiB = 1 << 20;
static const dim3 kOne = {1, 1, 1};

static size_t free_bytes(void) {
  size_t available, total;
  OK(cudaMemGetInfo(&available, &total));
  return available;
}

/* CUDA 12 has the location as a number under the plain names. */
static cudaError_t prefetch(const void* pointer, size_t bytes, int place, cudaStream_t stream) {
  struct cudaMemLocation location = {place < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, place};
#if CUDART_VERSION < 13000
  const cudaError_t error = cudaMemPrefetchAsync(pointer, bytes, place, stream);
  return error != cudaSuccess ? error : cudaMemPrefetchAsync_v2(pointer, bytes, location, 0, stream);
#else
  return cudaMemPrefetchAsync(pointer, bytes, location, 0, stream);
#endif
}

static cudaError_t advise(const void* pointer, size_t bytes, enum cudaMemoryAdvise advice, int place) {
  struct cudaMemLocation location = {place < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, place};
#if CUDART_VERSION < 13000
  const cudaError_t error = cudaMemAdvise(pointer, bytes, advice, place);
  return error != cudaSuccess ? error : cudaMemAdvise_v2(pointer, bytes, advice, location);
#else
  return cudaMemAdvise(pointer, bytes, advice, location);
#endif
}

static int fact(enum cudaMemRangeAttribute which, const void* pointer, size_t bytes) {
  int answer = -7;
  OK(cudaMemRangeGetAttribute(&answer, sizeof answer, which, pointer, bytes));
  return answer;
}

static void check_allocation(void) {
  char* pointer = NULL;
  struct cudaPointerAttributes of;
  const size_t huge = (size_t)512 << 30; /* as much as nobody has: not touched, it takes nothing */
  EXPECT(cudaMallocManaged((void**)&pointer, 0, cudaMemAttachGlobal), cudaErrorInvalidValue);
  EXPECT(cudaMallocManaged((void**)&pointer, 100, 8), cudaErrorInvalidValue);
  EXPECT(cudaMallocManaged((void**)&pointer, 100, cudaMemAttachSingle), cudaErrorInvalidValue);
  EXPECT(cudaMallocManaged(NULL, 100, cudaMemAttachGlobal), cudaErrorInvalidValue);
  OK(cudaMallocManaged((void**)&pointer, 100, cudaMemAttachHost));
  memset(pointer, 1, 100);
  OK(cudaPointerGetAttributes(&of, pointer + 50));
  CHECK(of.type == cudaMemoryTypeManaged && of.device == 0);
  CHECK(of.devicePointer == pointer + 50 && of.hostPointer == pointer + 50);
  OK(cudaStreamAttachMemAsync(NULL, pointer, 0, cudaMemAttachGlobal));
  EXPECT(cudaStreamAttachMemAsync(NULL, pointer, 0, 16), cudaErrorInvalidValue);
  EXPECT(cudaFreeHost(pointer), cudaErrorInvalidValue);
  EXPECT(cudaFree(pointer + 50), cudaErrorInvalidValue);
  OK(cudaFree(pointer));
  EXPECT_OF_OURS(cudaFree(pointer), cudaErrorInvalidValue);
#ifdef PHANTORA_MODEL
  OK(cudaMallocManaged((void**)&pointer, huge, cudaMemAttachGlobal));
  pointer[huge - 1] = 1;
  OK(cudaFree(pointer));
#endif
  (void)huge;
}

static void check_facts(char* pointer, size_t bytes) {
  int accessed[3], read_mostly = -7;
  void* answers[] = {accessed, &read_mostly};
  size_t sizes[] = {sizeof accessed, sizeof read_mostly};
  enum cudaMemRangeAttribute asked[] = {cudaMemRangeAttributeAccessedBy, cudaMemRangeAttributeReadMostly};
  char on_stack[64];
  CHECK(fact(cudaMemRangeAttributePreferredLocation, pointer, bytes) == cudaInvalidDeviceId);
  OK(advise(pointer, bytes, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
  OK(advise(pointer, bytes, cudaMemAdviseSetAccessedBy, 0));
  OK(advise(pointer, 2 * kMiB, cudaMemAdviseSetReadMostly, 0));
  CHECK(fact(cudaMemRangeAttributePreferredLocation, pointer, bytes) == cudaCpuDeviceId);
  CHECK(fact(cudaMemRangeAttributePreferredLocationType, pointer, bytes) == cudaMemLocationTypeHost);
  CHECK(fact(cudaMemRangeAttributeReadMostly, pointer, bytes) == 0);
  OK(cudaMemRangeGetAttributes(answers, sizes, asked, 2, pointer, 2 * kMiB));
  CHECK(accessed[0] == 0 && accessed[1] == cudaInvalidDeviceId && read_mostly == 1);
  OK(advise(pointer, 2 * kMiB, cudaMemAdviseUnsetReadMostly, 0));
  OK(advise(pointer, bytes, cudaMemAdviseUnsetAccessedBy, 0));
  OK(advise(pointer, bytes, cudaMemAdviseUnsetPreferredLocation, 0));
  CHECK(fact(cudaMemRangeAttributePreferredLocation, pointer, bytes) == cudaInvalidDeviceId);
  EXPECT(advise(on_stack, sizeof on_stack, cudaMemAdviseSetReadMostly, 0), cudaErrorInvalidValue);
  EXPECT(advise(pointer, bytes, (enum cudaMemoryAdvise)77, 0), cudaErrorInvalidValue);
  EXPECT(advise(pointer, bytes, cudaMemAdviseSetAccessedBy, 99), cudaErrorInvalidDevice);
  EXPECT(cudaMemRangeGetAttribute(accessed, 3, cudaMemRangeAttributeReadMostly, pointer, bytes), cudaErrorInvalidValue);
  EXPECT(cudaMemRangeGetAttribute(accessed, 4, cudaMemRangeAttributeReadMostly, on_stack, 4), cudaErrorInvalidValue);
}

static void check_prefetches(char* pointer, size_t bytes) {
  char on_stack[64];
  const size_t before = free_bytes();
  EXPECT(prefetch(on_stack, sizeof on_stack, 0, NULL), cudaErrorInvalidValue);
  EXPECT(prefetch(pointer, bytes, 99, NULL), cudaErrorInvalidDevice);
  EXPECT(prefetch(pointer, 0, 0, NULL), cudaErrorInvalidValue);
  memset(pointer, 3, 4 * kMiB);
  OK(prefetch(pointer, bytes, 0, NULL));
  CHECK(fact(cudaMemRangeAttributeLastPrefetchLocation, pointer, bytes) == 0);
  OK(cudaDeviceSynchronize());
  CHECK(before - free_bytes() >= bytes);
  OK(prefetch(pointer, bytes, cudaCpuDeviceId, NULL));
  OK(cudaDeviceSynchronize());
  CHECK(free_bytes() == before);
  CHECK(fact(cudaMemRangeAttributeLastPrefetchLocation, pointer, bytes) == cudaCpuDeviceId);
  CHECK(pointer[0] == 3 && pointer[4 * kMiB - 1] == 3 && pointer[4 * kMiB] == 0);
}

/* A kernel brings what it is given; a fill and a copy leave their values there. */
static void check_work(char* pointer) {
  unsigned count = 4;
  void* arguments[] = {&pointer, &count};
  char back[4];
  OK(cudaMemset(pointer, 7, 4));
  OK(cudaDeviceSynchronize());
  CHECK(pointer[0] == 7 && pointer[3] == 7 && pointer[4] == 3);
  OK(cudaMemcpy(back, pointer, sizeof back, cudaMemcpyDefault));
  CHECK(back[3] == 7);
  OK(cudaLaunchKernel(scale, kOne, kOne, arguments, 0, NULL));
  OK(cudaDeviceSynchronize());
}

#ifdef PHANTORA_MODEL
/* Managed memory makes room for what the program allocates; the rest is refused. */
static void check_eviction(void) {
  const size_t before = free_bytes(), most = before / (2 * kMiB) * (2 * kMiB) - 64 * kMiB;
  char* pointer;
  void *other, *more;
  OK(cudaMallocManaged((void**)&pointer, most, cudaMemAttachGlobal));
  OK(prefetch(pointer, most, 0, NULL));
  CHECK(free_bytes() == before - most);
  OK(cudaMalloc(&other, (size_t)8 << 30));
  CHECK(free_bytes() < 2 * kMiB);
  EXPECT(cudaMalloc(&more, before), cudaErrorMemoryAllocation);
  OK(cudaFree(other));
  OK(cudaFree(pointer));
  CHECK(free_bytes() == before);
}
#endif

int main(void) {
  const size_t bytes = 16 * kMiB;
  char* pointer;
  void** handle = register_kernel();
  OK(cudaFree(NULL));
  check_allocation();
  const size_t before = free_bytes();
  OK(cudaMallocManaged((void**)&pointer, bytes, cudaMemAttachGlobal));
  CHECK(free_bytes() == before);
  check_facts(pointer, bytes);
  check_prefetches(pointer, bytes);
  check_work(pointer);
#ifdef PHANTORA_MODEL
  CHECK(before - free_bytes() == bytes); /* the kernel brought all of it */
#endif
  OK(cudaFree(pointer));
  CHECK(free_bytes() == before);
#ifdef PHANTORA_MODEL
  check_eviction();
#endif
  __cudaUnregisterFatBinary(handle);
  return differences;
}
