/* covers: __cudaRegisterFatBinary __cudaRegisterFunction __cudaRegisterVar __cudaRegisterFatBinaryEnd
   __cudaUnregisterFatBinary __cudaPushCallConfiguration __cudaPopCallConfiguration __cudaGetKernel
   __cudaLaunchKernel cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaFuncGetAttributes
   cudaFuncSetAttribute cudaOccupancyMaxActiveBlocksPerMultiprocessor
   cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags */
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "code_object.h"
#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

/* What a compiled program calls before main; nvcc declares it for C++ only, in crt/host_runtime.h. */
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

/* Addresses are all that the runtime wants of them. */
static void scale(float* data, unsigned count) { (void)data, (void)count; }
static void unregistered(void) {}
static char table[64];

static void** register_kernel(void) {
  static struct {
    uint32_t magic, version;
    const void* data;
    void* names;
  } wrapper = {0x466243b1, 1, NULL, NULL};
  wrapper.data = make_fat_binary();
  void** handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, (const char*)scale, (char*)"scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterVar(handle, table, (char*)"table", "table", 0, sizeof table, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
  return handle;
}

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
  EXPECT(cudaLaunchKernel(unregistered, kGrid, kBlock, arguments, 0, NULL), cudaErrorInvalidDeviceFunction);
  EXPECT(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
  EXPECT(cudaLaunchKernel(scale, kGrid, wide, arguments, 0, NULL), cudaErrorInvalidConfiguration);
  EXPECT(cudaLaunchKernel(scale, kGrid, deep, arguments, 0, NULL), cudaErrorInvalidConfiguration);
  EXPECT(cudaLaunchKernel(scale, kGrid, none, arguments, 0, NULL), cudaErrorInvalidConfiguration);
  EXPECT(cudaLaunchKernel(scale, none, kBlock, arguments, 0, NULL), cudaErrorInvalidConfiguration);
  EXPECT(cudaLaunchKernel(scale, tall, kBlock, arguments, 0, NULL), cudaErrorInvalidConfiguration);
  EXPECT(cudaLaunchKernel(scale, kGrid, kBlock, arguments, 1 << 20, NULL), cudaErrorInvalidValue);
}

static void check_attributes(void) {
  struct cudaFuncAttributes of;
  int most, blocks = 0;
  OK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  OK(cudaFuncGetAttributes(&of, scale));
  CHECK(of.maxThreadsPerBlock == 1024 && of.binaryVersion >= 80 && of.maxDynamicSharedSizeBytes == 48 << 10);
  OK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  OK(cudaFuncGetAttributes(&of, scale));
  CHECK(of.maxDynamicSharedSizeBytes == most);
  OK(cudaFuncSetAttribute(scale, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  EXPECT(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1), cudaErrorInvalidValue);
  EXPECT(cudaFuncSetAttribute(unregistered, cudaFuncAttributeMaxDynamicSharedMemorySize, 1),
         cudaErrorInvalidDeviceFunction);
  EXPECT(cudaFuncGetAttributes(&of, unregistered), cudaErrorInvalidDeviceFunction);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 1024, 0));
  CHECK(blocks >= 1 && blocks <= 2);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, scale, 128, (size_t)most, 0));
  CHECK(blocks == 1); /* shared memory is the limit */
  EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 0, 0), cudaErrorInvalidValue);
  EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, unregistered, 128, 0), cudaErrorInvalidDeviceFunction);
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
  check_attributes();
  OK(cudaDeviceSynchronize());
  __cudaUnregisterFatBinary(handle);
  return differences;
}
