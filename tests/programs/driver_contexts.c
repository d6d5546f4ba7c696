/* covers: cuCtxCreate_v4 cuCtxDestroy_v2 cuCtxEnablePeerAccess cuCtxGetApiVersion cuCtxGetFlags cuCtxGetId
   cuCtxGetStreamPriorityRange cuDeviceCanAccessPeer cuDeviceComputeCapability cuDeviceGetP2PAttribute
   cuDeviceGetProperties cuDeviceGetUuid cuDevicePrimaryCtxSetFlags_v2 cuGetProcAddress */
#include <cuda.h>
#include <string.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

/* The unversioned forms, which cuda.h hides behind macros and old programs still call. */
#undef cuDeviceGetUuid
#undef cuGetProcAddress
CUresult cuDeviceGetUuid(CUuuid*, CUdevice);
CUresult cuGetProcAddress(const char*, void**, int, cuuint64_t);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* PyTorch and old programs look them up by name */

static void check_device(int count) {
  int major = 0, minor = -1, value = 0;
  CUuuid old, new;
  CUdevprop properties;
  void* function = NULL;
  OK(cuDeviceComputeCapability(&major, &minor, 0));
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  CHECK(value == major && major >= 8 && minor >= 0);
  OK(cuDeviceGetProperties(&properties, 0));
  CHECK(properties.maxThreadsPerBlock == 1024 && properties.SIMDWidth == 32);
  CHECK(properties.maxThreadsDim[2] == 64 && properties.maxGridSize[1] == 65535);
  OK(cuDeviceGetUuid(&old, 0));
  OK(cuDeviceGetUuid_v2(&new, 0));
  CHECK(memcmp(&old, &new, sizeof old) == 0);
  OK(cuGetProcAddress("cuMemFree", &function, 13000, CU_GET_PROC_ADDRESS_DEFAULT));
  CHECK(function != NULL);
  EXPECT(cuDeviceComputeCapability(&major, &minor, count), CUDA_ERROR_INVALID_DEVICE);
}

static void check_peers(int count, CUcontext context) {
  int can = 1;
  CUcontext peer;
  OK(cuDeviceCanAccessPeer(&can, 0, 0));
  CHECK(can == 0);
  EXPECT(cuDeviceCanAccessPeer(&can, 0, count), CUDA_ERROR_INVALID_DEVICE);
  EXPECT(cuCtxEnablePeerAccess(context, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED); /* itself */
  if (count < 2) return;
  OK(cuDeviceCanAccessPeer(&can, 0, 1));
  OK(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
  EXPECT(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0), CUDA_ERROR_INVALID_DEVICE);
  if (!can) return;
  OK(cuDevicePrimaryCtxRetain(&peer, 1));
  EXPECT(cuCtxEnablePeerAccess(peer, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuCtxEnablePeerAccess(peer, 0));
  OK(cuDevicePrimaryCtxRelease(1));
}

static void check_own_context(CUcontext primary) {
  CUcontext own, current;
  unsigned long long first = 0, second = 0;
  unsigned version = 0;
  OK(cuCtxCreate(&own, NULL, 0, 0));
  OK(cuCtxGetCurrent(&current));
  CHECK(current == own && own != primary);
  OK(cuCtxGetId(own, &first));
  OK(cuCtxGetId(primary, &second));
  CHECK(first != second);
  OK(cuCtxGetApiVersion(own, &version));
  CHECK(version > 0);
  OK(cuCtxDestroy(own));
  OK(cuCtxGetCurrent(&current));
  CHECK(current == primary);
}

int main(void) {
  int count = 0, least = -1, greatest = 0, active = -1;
  unsigned flags = 0;
  CUcontext primary;
  OK(cuInit(0));
  EXPECT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  OK(cuDeviceGetCount(&count));
  check_device(count);
  EXPECT(cuCtxGetFlags(&flags), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
  OK(cuDevicePrimaryCtxRetain(&primary, 0));
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  CHECK((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC && active == 1);
  OK(cuCtxSetCurrent(primary));
  OK(cuCtxGetFlags(&flags));
  CHECK((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  CHECK(least == 0 && greatest < 0);
  check_own_context(primary);
  check_peers(count, primary);
  OK(cuDevicePrimaryCtxRelease(0));
  return differences;
}
