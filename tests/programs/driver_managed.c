/* covers: cuMemAllocManaged cuMemFree_v2 cuMemPrefetchAsync cuMemPrefetchAsync_v2 cuMemAdvise cuMemAdvise_v2
   cuMemRangeGetAttribute cuMemRangeGetAttributes cuPointerGetAttribute cuPointerGetAttributes
   cuStreamAttachMemAsync */
#include <cuda.h>
#include <string.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

/* The names before CUDA 13, which its header gives to others. */
#undef cuMemAdvise
#undef cuMemPrefetchAsync
CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);

static unsigned attribute(CUpointer_attribute which, CUdeviceptr address) {
  unsigned answer = 77;
  OK(cuPointerGetAttribute(&answer, which, address));
  return answer;
}

static void check_pointer(CUdeviceptr address) {
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_HOST_POINTER};
  unsigned is_managed = 77;
  void* host = NULL;
  void* answers[] = {&is_managed, &host};
  CHECK(attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, address + 8) == 1);
  CHECK(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CU_MEMORYTYPE_DEVICE);
  CHECK(attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == 0);
  OK(cuPointerGetAttributes(2, asked, answers, address + 8));
  CHECK(is_managed == 1 && host == (void*)(address + 8));
}

static void check_places(CUdeviceptr address, size_t bytes) {
  const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, nowhere = {.type = CU_MEM_LOCATION_TYPE_INVALID};
  int preferred = -7, prefetched = -7;
  void* answers[] = {&preferred, &prefetched};
  size_t sizes[] = {sizeof preferred, sizeof prefetched};
  CUmem_range_attribute asked[] = {CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                   CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
  OK(cuMemAdvise_v2(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  OK(cuMemRangeGetAttribute(&preferred, sizeof preferred, asked[0], address, bytes));
  CHECK(preferred == CU_DEVICE_CPU);
  OK(cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
  OK(cuMemPrefetchAsync(address, bytes, 0, NULL));
  OK(cuMemPrefetchAsync_v2(address, bytes, host, 0, NULL));
  OK(cuMemRangeGetAttributes(answers, sizes, asked, 2, address, bytes));
  CHECK(preferred == 0 && prefetched == CU_DEVICE_CPU);
  EXPECT(cuMemAdvise_v2(address, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, nowhere), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, 99), CUDA_ERROR_INVALID_DEVICE);
  EXPECT(cuMemPrefetchAsync_v2(address, bytes, host, 5, NULL), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemPrefetchAsync(address, bytes + 1, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemPrefetchAsync((CUdeviceptr)&preferred, 4, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
  const size_t bytes = 4 << 20;
  CUdevice device;
  CUcontext context;
  CUdeviceptr address = 0;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  EXPECT(cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemAllocManaged(&address, bytes, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
  memset((void*)address, 5, bytes);
  check_pointer(address);
  check_places(address, bytes);
  OK(cuStreamAttachMemAsync(NULL, address, 0, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemsetD8_v2(address, 9, 16));
  OK(cuCtxSynchronize());
  CHECK(((char*)address)[15] == 9 && ((char*)address)[16] == 5);
  OK(cuMemFree_v2(address));
  EXPECT_OF_OURS(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  return differences;
}
