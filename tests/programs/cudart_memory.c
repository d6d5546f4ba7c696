/* covers: cudaMalloc cudaFree cudaMemGetInfo cudaHostAlloc cudaMallocHost cudaFreeHost cudaHostRegister
   cudaHostUnregister cudaHostGetDevicePointer cudaPointerGetAttributes cudaGetLastError cudaPeekAtLastError */
#include <cuda_runtime_api.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static size_t free_bytes(void) {
  size_t available, total;
  OK(cudaMemGetInfo(&available, &total));
  CHECK(available <= total);
  return available;
}

static void check_device_memory(void) {
  void *first, *second, *none = &first;
  const size_t before = free_bytes();
  OK(cudaMalloc(&first, 64 << 20));
  OK(cudaMalloc(&second, 100));
  CHECK((size_t)first % 256 == 0 && (size_t)second % 256 == 0);
  CHECK(before - free_bytes() >= (size_t)64 << 20);
  OK(cudaMalloc(&none, 0));
  CHECK(none == NULL);
  EXPECT(cudaMalloc(NULL, 100), cudaErrorInvalidValue);
  EXPECT(cudaFree((char*)first + 256), cudaErrorInvalidValue); /* not a base */
  EXPECT(cudaFree(&none), cudaErrorInvalidValue);
  OK(cudaFree(first));
  EXPECT(cudaFree(first), cudaErrorInvalidValue);
  OK(cudaFree(second));
  OK(cudaFree(NULL));
  CHECK(free_bytes() == before);
  EXPECT(cudaMemGetInfo(NULL, NULL), cudaSuccess);
}

/* A failure is remembered until it is asked for, and leaves the device usable. */
static void check_out_of_memory(void) {
  size_t available, total;
  void *most, *more = NULL;
  (void)cudaGetLastError();
  OK(cudaMemGetInfo(&available, &total));
  EXPECT(cudaMalloc(&more, total + 1), cudaErrorMemoryAllocation);
  EXPECT(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError(), cudaSuccess);
  EXPECT(cudaPeekAtLastError(), cudaSuccess);
  OK(cudaMalloc(&most, available - ((size_t)512 << 20)));
  EXPECT(cudaMalloc(&more, (size_t)1 << 30), cudaErrorMemoryAllocation);
  OK(cudaFree(most));
  OK(cudaMalloc(&more, (size_t)1 << 30));
  EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation); /* success does not wipe it out */
  OK(cudaFree(more));
}

static void check_host_memory(void) {
  int *pinned, *mapped, *wrong = NULL; /* a call that fails may write there */
  void* address;
  static char registered[1 << 16];
  OK(cudaMallocHost((void**)&pinned, 4096));
  OK(cudaHostAlloc((void**)&mapped, 4096, cudaHostAllocPortable | cudaHostAllocMapped));
  pinned[1023] = 1;
  mapped[1023] = 1;
  EXPECT(cudaHostAlloc((void**)&wrong, 4096, 0x1000), cudaErrorInvalidValue);
  EXPECT(cudaHostAlloc(NULL, 4096, 0), cudaErrorInvalidValue);
  EXPECT(cudaFreeHost(registered), cudaErrorInvalidValue);
  OK(cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
  EXPECT(cudaHostRegister(registered, sizeof registered, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT(cudaHostRegister(registered, 0, 0), cudaErrorInvalidValue);
  OK(cudaHostGetDevicePointer(&address, mapped + 8, 0));
  CHECK(address == mapped + 8);
  OK(cudaHostGetDevicePointer(&address, registered, 0));
  CHECK(address == registered);
  EXPECT(cudaHostGetDevicePointer(&address, mapped, 1), cudaErrorInvalidValue);
  EXPECT(cudaHostGetDevicePointer(NULL, mapped, 0), cudaErrorInvalidValue);
  OK(cudaHostUnregister(registered));
  EXPECT(cudaHostGetDevicePointer(&address, registered, 0), cudaErrorInvalidValue);
  EXPECT(cudaHostUnregister(registered), cudaErrorHostMemoryNotRegistered);
  OK(cudaFreeHost(pinned));
  EXPECT(cudaFreeHost(pinned), cudaErrorInvalidValue);
  OK(cudaFreeHost(mapped));
  OK(cudaFreeHost(NULL));
}

static void check_pointers(void) {
  struct cudaPointerAttributes of;
  char *device, *pinned, registered[4096];
  OK(cudaMalloc((void**)&device, 4096));
  OK(cudaMallocHost((void**)&pinned, 4096));
  OK(cudaPointerGetAttributes(&of, device + 100));
  CHECK(of.type == cudaMemoryTypeDevice && of.device == 0);
  CHECK(of.devicePointer == device + 100 && of.hostPointer == NULL);
  OK(cudaPointerGetAttributes(&of, pinned + 100));
  CHECK(of.type == cudaMemoryTypeHost && of.device == 0);
  CHECK(of.devicePointer == pinned + 100 && of.hostPointer == pinned + 100);
  OK(cudaPointerGetAttributes(&of, registered));
  CHECK(of.type == cudaMemoryTypeUnregistered);
#ifdef PHANTORA_MODEL
  CHECK(of.device == -2 && of.devicePointer == NULL); /* with heterogeneous memory the device reaches all of it */
#endif
  OK(cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
  OK(cudaPointerGetAttributes(&of, registered + 4095));
  CHECK(of.type == cudaMemoryTypeHost);
  OK(cudaHostUnregister(registered));
  EXPECT(cudaPointerGetAttributes(NULL, device), cudaErrorInvalidValue);
  OK(cudaFreeHost(pinned));
  OK(cudaFree(device));
  OK(cudaPointerGetAttributes(&of, device));
#ifdef PHANTORA_MODEL
  CHECK(of.type == cudaMemoryTypeUnregistered);
#endif
}

int main(void) {
  OK(cudaFree(NULL));
  check_device_memory();
  check_out_of_memory();
  check_host_memory();
  check_pointers();
  return differences;
}
