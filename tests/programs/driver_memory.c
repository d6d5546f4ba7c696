/* covers: cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetAttribute
   cuDeviceTotalMem_v2 cuDeviceGetUuid_v2 cuDeviceGetPCIBusId cuDeviceGetByPCIBusId cuDevicePrimaryCtxRetain
   cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxGetState cuCtxSetCurrent cuCtxGetCurrent cuCtxPushCurrent_v2
   cuCtxPopCurrent_v2 cuCtxGetDevice cuCtxSynchronize cuGetErrorString cuGetErrorName cuGetProcAddress_v2
   cuMemAlloc_v2 cuMemFree_v2 cuMemAllocHost_v2 cuMemFreeHost cuMemGetInfo_v2 cuMemGetAddressRange_v2
   cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoDAsync_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemsetD32_v2
   cuMemsetD8Async cuPointerGetAttribute cuPointerGetAttributes cuStreamCreate cuStreamDestroy_v2
   cuStreamSynchronize cuStreamQuery cuStreamWaitEvent cuEventCreate cuEventRecord cuEventQuery
   cuEventSynchronize cuEventDestroy_v2 */
#include <cuda.h>
#include <string.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

static void check_device(void) {
  int count = 0, version = 0, sm_count = 0;
  CUdevice device, again;
  char name[64], bus[32];
  CUuuid uuid;
  size_t bytes = 0;
  OK(cuDriverGetVersion(&version));
  CHECK(version >= 13000);
  OK(cuDeviceGetCount(&count));
  CHECK(count >= 1);
  OK(cuDeviceGet(&device, 0));
  EXPECT(cuDeviceGet(&again, count), CUDA_ERROR_INVALID_DEVICE);
  OK(cuDeviceGetName(name, sizeof name, device));
  CHECK(strlen(name) > 0);
  OK(cuDeviceGetAttribute(&sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  CHECK(sm_count > 0);
  OK(cuDeviceTotalMem(&bytes, device));
  CHECK(bytes > ((size_t)1 << 30));
  OK(cuDeviceGetUuid(&uuid, device));
  OK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
  OK(cuDeviceGetByPCIBusId(&again, bus));
  CHECK(again == device);
}

static void check_contexts(void) {
  CUcontext primary, current, popped;
  CUdevice device = -1;
  unsigned flags;
  int active;
  OK(cuDevicePrimaryCtxRetain(&primary, 0));
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  CHECK(active == 1);
  OK(cuCtxPushCurrent(primary));
  OK(cuCtxGetCurrent(&current));
  CHECK(current == primary);
  OK(cuCtxGetDevice(&device));
  CHECK(device == 0);
  OK(cuCtxPopCurrent(&popped));
  CHECK(popped == primary);
  OK(cuCtxSetCurrent(primary));
#ifdef PHANTORA_MODEL
  EXPECT(cuCtxSetCurrent((CUcontext)12345), CUDA_ERROR_INVALID_CONTEXT);
#endif
}

static void check_pointer(CUdeviceptr address) {
  unsigned type = 0;
  int ordinal = -1;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 100));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&type), CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute which[2] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* answers[2] = {&ordinal, &bytes};
  OK(cuPointerGetAttributes(2, which, answers, address));
  CHECK(ordinal == 0 && bytes == 4096);
  OK(cuMemGetAddressRange(&base, &bytes, address + 4095));
  CHECK(base == address && bytes == 4096);
}

static void check_memory(CUstream stream) {
  CUdeviceptr a, b;
  size_t before, after, total;
  unsigned* pinned;
  unsigned pageable[4] = {1, 2, 3, 4}, back[4] = {0};
  OK(cuMemGetInfo(&before, &total));
  OK(cuMemAlloc(&a, 4096));
  OK(cuMemAlloc(&b, 64 << 20));
  OK(cuMemGetInfo(&after, &total));
  CHECK(before - after >= (size_t)64 << 20);
  OK(cuMemAllocHost((void**)&pinned, 4096));
  check_pointer(a);
  OK(cuMemcpyHtoD(a, pageable, sizeof pageable));
  OK(cuMemcpyDtoDAsync(b, a, sizeof pageable, stream));
  OK(cuMemcpyDtoHAsync(pinned, b, sizeof pageable, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(memcmp(pinned, pageable, sizeof pageable) == 0);
  pinned[0] = 9;
  OK(cuMemcpyHtoDAsync(a, pinned, 4, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(back, a, sizeof back));
  CHECK(back[0] == 9 && back[3] == 4);
  OK(cuMemsetD32(a, 7, 2));
  OK(cuMemsetD8Async(a + 12, 0xff, 4, stream));
  OK(cuMemcpyDtoH(back, a, sizeof back));
  CHECK(back[0] == 7 && back[1] == 7 && back[3] == 0xffffffffu);
  OK(cuMemFree(a));
  EXPECT(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(b));
  OK(cuMemFreeHost(pinned));
}

static void check_events(CUstream stream) {
  CUevent event;
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(NULL, event, 0));
  OK(cuEventSynchronize(event));
  OK(cuEventQuery(event));
  OK(cuEventDestroy(event));
#ifdef PHANTORA_MODEL
  EXPECT(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
#endif
}

int main(void) {
  CUstream stream;
  const char* text = NULL;
  void* function = NULL;
  CUdriverProcAddressQueryResult found;
  OK(cuInit(0));
  check_device();
  check_contexts();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  check_memory(stream);
  check_events(stream);
  OK(cuStreamQuery(stream));
  OK(cuStreamDestroy(stream));
  OK(cuCtxSynchronize());
  OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  CHECK(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
  OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  CHECK(strcmp(text, "out of memory") == 0);
  OK(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, &found));
  CHECK(function != NULL && found == CU_GET_PROC_ADDRESS_SUCCESS);
#ifdef PHANTORA_MODEL
  CHECK(function == (void*)cuMemAlloc);
#endif
  OK(cuGetProcAddress("cuNoSuchCall", &function, 13000, 0, &found));
  CHECK(function == NULL && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  OK(cuDevicePrimaryCtxRelease(0));
  return differences;
}
