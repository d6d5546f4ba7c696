/* covers: cuDevicePrimaryCtxReset_v2 */
#include <cuda.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

int main(void) {
  CUdevice device;
  CUcontext context;
  CUdeviceptr memory;
  CUstream stream;
  unsigned flags;
  int active;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  EXPECT(cuDevicePrimaryCtxReset(99), CUDA_ERROR_INVALID_DEVICE);
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&memory, 1 << 20));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemsetD8Async(memory, 0, 1 << 20, stream));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  CHECK(active == 1);
  OK(cuDevicePrimaryCtxReset(device));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  CHECK(active == 0);
#ifdef PHANTORA_MODEL
  EXPECT(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
#endif
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&memory, 1 << 20));
  OK(cuMemFree(memory));
  return differences;
}
