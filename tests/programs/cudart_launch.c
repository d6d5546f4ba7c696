/* covers: __cudaRegisterFatBinary __cudaRegisterFunction __cudaRegisterVar __cudaRegisterFatBinaryEnd
   __cudaUnregisterFatBinary __cudaPushCallConfiguration __cudaPopCallConfiguration __cudaGetKernel
   __cudaLaunchKernel cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaFuncGetAttributes
   cudaFuncSetAttribute cudaFuncGetName cudaKernelSetAttributeForDevice
   cudaOccupancyMaxActiveBlocksPerMultiprocessor
   cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags */
#include <cuda_runtime_api.h>
#include <string.h>

#include "program.h"
#include "registered.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static void unregistered(void) {}

static const dim3 kGrid = {2, 1, 1}, kBlock = {128, 1, 1};

static void check_launches(void** arguments, cudaStream_t stream) {
  cudaKernel_t kernel;
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t pushed;
  cudaLaunchConfig_t configuration = {.gridDim = kGrid, .blockDim = kBlock, .stream = stream};
  OK(cudaLaunchKernel(scale, kGrid, kBlock, arguments, 0, stream));
  OK(cudaLaunchKernelExC(&configuration, scale, arguments));
  OK(cudaLaunchCooperativeKernel(scale, kGrid, kBlock, arguments, 0, stream));
  OK(__cudaGetKernel(&kernel, scale));
  CHECK(__cudaPushCallConfiguration(kGrid, kBlock, 16, stream) == 0);
  OK(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &pushed));
  CHECK(grid.x == 2 && block.x == 128 && shared_bytes == 16 && pushed == stream);
  OK(__cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream));
  OK(cudaStreamSynchronize(stream));
}

static void check_misuse(void** arguments) {
  const dim3 wide = {2048, 1, 1}, none = {0, 1, 1}, deep = {1, 1, 128}, tall = {1, 70000, 1};
  EXPECT(cudaLaunchKernel(unregistered, kGrid, kBlock, arguments, 0, NULL), UNKNOWN_KERNEL);
  EXPECT(cudaGetLastError(), UNKNOWN_KERNEL);
  EXPECT(cudaLaunchKernel(scale, kGrid, wide, arguments, 0, NULL), WRONG_SHAPE);
  EXPECT(cudaLaunchKernel(scale, kGrid, deep, arguments, 0, NULL), WRONG_SHAPE);
  EXPECT(cudaLaunchKernel(scale, kGrid, none, arguments, 0, NULL), WRONG_SHAPE);
  EXPECT(cudaLaunchKernel(scale, none, kBlock, arguments, 0, NULL), WRONG_SHAPE);
  EXPECT(cudaLaunchKernel(scale, tall, kBlock, arguments, 0, NULL), WRONG_SHAPE);
  EXPECT(cudaLaunchKernel(scale, kGrid, kBlock, arguments, 1 << 20, NULL), cudaErrorInvalidValue);
}

static void check_attributes(void) {
  struct cudaFuncAttributes of;
  int major, minor, most, blocks = 0;
  const char* name = NULL;
  cudaKernel_t kernel;
  OK(cudaFuncGetName(&name, scale));
  CHECK(strcmp(name, "scale") == 0);
  OK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  OK(cudaFuncGetAttributes(&of, scale));
  OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  OK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  CHECK(of.maxThreadsPerBlock == 1024 && of.maxDynamicSharedSizeBytes == 48 << 10);
  CHECK(of.ptxVersion == 80 && of.binaryVersion == 10 * major + minor); /* PTX, compiled for this GPU */
  OK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  OK(cudaFuncGetAttributes(&of, scale));
  CHECK(of.maxDynamicSharedSizeBytes == most);
  OK(__cudaGetKernel(&kernel, scale));
  OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most, 0));
  OK(cudaFuncSetAttribute(scale, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  EXPECT(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1), cudaErrorInvalidValue);
  EXPECT(cudaFuncSetAttribute(unregistered, cudaFuncAttributeMaxDynamicSharedMemorySize, 1), UNKNOWN_KERNEL);
  EXPECT(cudaFuncGetAttributes(&of, unregistered), UNKNOWN_KERNEL);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 1024, 0));
  CHECK(blocks >= 1 && blocks <= 2);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, scale, 128, (size_t)most, 0));
  CHECK(blocks == 1); /* shared memory is the limit */
  EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 0, 0), cudaErrorInvalidValue);
  EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, unregistered, 128, 0), UNKNOWN_KERNEL);
  EXPECT(cudaFuncGetName(NULL, scale), cudaErrorInvalidValue);
  EXPECT(cudaFuncGetName(&name, unregistered), UNKNOWN_KERNEL);
}

/* A kernel wants a stream of the current device; a copy takes any. */
static void check_other_device(void** arguments, void* data, cudaStream_t stream) {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  if (devices < 2) return;
  OK(cudaSetDevice(1));
  EXPECT(cudaLaunchKernel((const void*)scale, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0, stream),
         cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  OK(cudaMemsetAsync(data, 0, 4, stream));
  OK(cudaSetDevice(0));
}

int main(void) {
  void** handle = register_kernel();
  cudaStream_t stream;
  float* data;
  unsigned count = 256;
  OK(cudaMalloc((void**)&data, count * sizeof(float)));
  OK(cudaStreamCreate(&stream));
  void* arguments[2] = {&data, &count};
  check_launches(arguments, NULL);
  check_launches(arguments, stream);
  check_misuse(arguments);
  check_other_device(arguments, data, stream);
  check_attributes();
  OK(cudaDeviceSynchronize());
  __cudaUnregisterFatBinary(handle);
  return differences;
}
