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
#endif
  OK(cuMemAddressReserve(&base, 64 * step, 0, 0, 0));
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
  EXPECT(cuMemUnmap(base + step, 2 * step), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAddressFree(base, 64 * step));
  EXPECT(cuMemAddressFree(base, 64 * step), CUDA_ERROR_INVALID_VALUE);
  return differences;
}
