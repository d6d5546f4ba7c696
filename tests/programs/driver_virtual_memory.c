/* covers: cuMemGetAllocationGranularity cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease
   cuMemRetainAllocationHandle cuMemGetAllocationPropertiesFromHandle cuMemMap cuMemUnmap cuMemSetAccess
   cuMemGetAccess */
#include <cuda.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

static size_t free_bytes(void) {
  size_t available, total;
  OK(cuMemGetInfo(&available, &total));
  return available;
}

static void use_memory(CUdeviceptr address) {
  unsigned value = 7, back = 0;
  int ordinal = -1;
  OK(cuMemcpyHtoD(address + 64, &value, sizeof value));
  OK(cuMemcpyDtoH(&back, address + 64, sizeof back));
  CHECK(back == value);
  OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address + 64));
  CHECK(ordinal == 0);
  EXPECT(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

#ifdef PHANTORA_MODEL
/* The vendor's may do otherwise. */
static void follow_hints(size_t step) {
  const CUdeviceptr far = (CUdeviceptr)256 << 30;
  CUdeviceptr memory, first, second;
  OK(cuMemAlloc(&memory, 4 * step));
  const CUdeviceptr free_place = (memory + far) / step * step;
  OK(cuMemAddressReserve(&first, 4 * step, 0, free_place, 0));
  CHECK(first == free_place);
  OK(cuMemAddressReserve(&second, 4 * step, 0, free_place + step, 0)); /* taken */
  CHECK(second != free_place + step);
  OK(cuMemAddressFree(second, 4 * step));
  OK(cuMemAddressReserve(&second, step, 0, memory, 0)); /* memory */
  CHECK(second != memory);
  OK(cuMemAddressFree(second, step));
  OK(cuMemAddressFree(first, 4 * step));
  OK(cuMemAddressReserve(&first, 4 * step, 0, free_place, 0)); /* free again */
  CHECK(first == free_place);
  OK(cuMemAddressFree(first, 4 * step));
  OK(cuMemFree(memory));
}
#endif

static CUmemGenericAllocationHandle map_new(CUdeviceptr address, size_t bytes, const CUmemAllocationProp* properties) {
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate(&handle, bytes, properties, 0));
  OK(cuMemMap(address, bytes, 0, handle, 0));
  return handle;
}

/* Two mappings side by side: one memory for copies, two for questions. */
static void use_neighbours(CUdeviceptr base, size_t step, const CUmemAllocationProp* properties) {
  const CUmemAccessDesc access = {.location = properties->location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUmemGenericAllocationHandle first = map_new(base + step, step, properties);
  const CUmemGenericAllocationHandle second = map_new(base + 2 * step, 2 * step, properties);
  CUdeviceptr found;
  size_t bytes;
  unsigned sent[2] = {5, 6}, back[2] = {0};
  OK(cuMemSetAccess(base + step, 3 * step, &access, 1));
  EXPECT(cuMemSetAccess(base + step, 4 * step, &access, 1), CUDA_ERROR_INVALID_VALUE); /* not all mapped */
  OK(cuMemcpyHtoD(base + 2 * step - 4, sent, sizeof sent));
  OK(cuMemcpyDtoH(back, base + 2 * step - 4, sizeof back));
  CHECK(back[0] == 5 && back[1] == 6);
  OK(cuMemsetD8(base + step, 0, 3 * step));
  EXPECT(cuMemsetD8(base + step, 0, 3 * step + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemsetD8(base, 0, 2 * step), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemGetAddressRange(&found, &bytes, base + 3 * step));
  CHECK(found == base + 2 * step && bytes == 2 * step);
  OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + 3 * step));
  OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + 3 * step));
  CHECK(found == base && bytes == 64 * step);
  EXPECT(cuMemUnmap(base + 2 * step, step), CUDA_ERROR_INVALID_VALUE); /* a part of a mapping */
  EXPECT(cuMemAddressFree(base, 64 * step), CUDA_ERROR_INVALID_VALUE); /* still mapped */
  OK(cuMemUnmap(base + step, 3 * step));
  OK(cuMemRelease(first));
  OK(cuMemRelease(second));
}

/* What a mapping held is not there at another one that takes its place, and nobody may use it at once. */
static void map_again(CUdeviceptr base, size_t step, const CUmemAllocationProp* properties) {
  CUmemAccessDesc access = {.location = properties->location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
  CUmemGenericAllocationHandle handle = map_new(base, step, properties);
  unsigned value = 7;
  unsigned long long flags = 9;
  OK(cuMemGetAccess(&flags, &access.location, base));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
#ifdef PHANTORA_MODEL
  EXPECT(cuMemcpyHtoD(base, &value, sizeof value), CUDA_ERROR_INVALID_VALUE); /* the vendor names no code */
  OK(cuMemSetAccess(base, step, &access, 1));
  EXPECT(cuMemcpyHtoD(base, &value, sizeof value), CUDA_ERROR_INVALID_VALUE);
#endif
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cuMemSetAccess(base, step, &access, 1));
  OK(cuMemcpyHtoD(base, &value, sizeof value));
  OK(cuMemUnmap(base, step));
  OK(cuMemRelease(handle));
  handle = map_new(base, step, properties);
  OK(cuMemSetAccess(base, step, &access, 1));
  OK(cuMemcpyDtoH(&value, base, sizeof value));
#ifdef PHANTORA_MODEL
  CHECK(value == 0); /* not known, and so recorded */
#endif
  OK(cuMemUnmap(base, step));
  OK(cuMemRelease(handle));
}

/* One memory at two addresses: what is written at one is never taken for unchanged at the other. */
static void map_twice(CUdeviceptr base, size_t step, const CUmemAllocationProp* properties) {
  const CUmemAccessDesc access = {.location = properties->location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUmemGenericAllocationHandle handle = map_new(base, step, properties);
  unsigned values[2] = {7, 8}, back = 0;
  OK(cuMemMap(base + step, step, 0, handle, 0));
  OK(cuMemSetAccess(base, 2 * step, &access, 1));
  OK(cuMemcpyHtoD(base, &values[0], 4));
  OK(cuMemcpyHtoD(base + step, &values[1], 4));
  OK(cuMemcpyDtoH(&back, base, 4));
#ifdef PHANTORA_MODEL
  CHECK(back == 0); /* not known, and so recorded */
#else
  CHECK(back == 8);
#endif
  OK(cuMemUnmap(base, 2 * step));
  OK(cuMemRelease(handle));
}

#ifdef PHANTORA_MODEL
/* Addresses come back: a program may reserve any number of times. */
static void reserve_often(void) {
  const size_t bytes = (size_t)128 << 30;
  CUdeviceptr first, next;
  OK(cuMemAddressReserve(&first, bytes, 0, 0, 0));
  OK(cuMemAddressReserve(&next, bytes, 0, first + bytes, 0)); /* the next ones, for an array that grows */
  CHECK(next == first + bytes);
  OK(cuMemAddressFree(next, bytes));
  OK(cuMemAddressFree(first, bytes));
  for (int i = 0; i < 1000; ++i) {
    OK(cuMemAddressReserve(&next, bytes, 0, 0, 0));
    OK(cuMemAddressFree(next, bytes));
  }
}
#endif

int main(void) {
  CUcontext context;
  CUdeviceptr base;
  size_t step = 0;
  unsigned long long flags = 0;
  CUmemGenericAllocationHandle handle, again;
  CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemAllocationProp seen;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuMemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  const size_t before = free_bytes();

#ifdef PHANTORA_MODEL
  follow_hints(step);
  reserve_often();
#endif
  OK(cuMemAddressReserve(&base, 64 * step, 0, 0, 0));
  use_neighbours(base, step, &properties);
  map_again(base, step, &properties);
  map_twice(base, step, &properties);
  CHECK(free_bytes() == before); /* addresses cost nothing */
  EXPECT(cuMemCreate(&handle, step + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemCreate(&handle, step << 20, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemCreate(&handle, 2 * step, &properties, 0));
  CHECK(before - free_bytes() == 2 * step);
  OK(cuMemGetAllocationPropertiesFromHandle(&seen, handle));
  CHECK(seen.location.id == 0);

  OK(cuMemMap(base + step, 2 * step, 0, handle, 0));
#ifdef PHANTORA_MODEL
  EXPECT(cuMemMap(base + step, step, 0, handle, 0), CUDA_ERROR_ALREADY_MAPPED); /* the vendor names no code */
#endif
  CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemSetAccess(base + step, 2 * step, &access, 1));
  OK(cuMemGetAccess(&flags, &access.location, base + step));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  use_memory(base + step);

  OK(cuMemRetainAllocationHandle(&again, (void*)(base + 2 * step)));
  CHECK(again == handle);
  OK(cuMemRelease(again));
  OK(cuMemRelease(handle));
  CHECK(before - free_bytes() == 2 * step); /* the mapping still holds it */
  OK(cuMemUnmap(base + step, 2 * step));
  CHECK(free_bytes() == before);
  EXPECT(cuMemUnmap(base + step, 2 * step), CUDA_SUCCESS); /* once more */
  OK(cuMemAddressFree(base, 64 * step));
  EXPECT(cuMemAddressFree(base, 64 * step), CUDA_ERROR_INVALID_VALUE);
  return differences;
}
