/* covers: cuModuleLoadData cuModuleGetFunction cuModuleUnload cuFuncGetAttribute cuFuncSetAttribute cuFuncGetName
   cuFuncGetModule cuFuncSetCacheConfig cuLaunchKernel cuLaunchKernelEx cuLibraryLoadData cuLibraryGetKernel
   cuKernelGetFunction cuLibraryUnload cuOccupancyMaxActiveBlocksPerMultiprocessor
   cuOccupancyMaxPotentialBlockSize */
#include <cuda.h>

#include "code_object.h"
#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

static void check_function(CUfunction function) {
  int value = 0, blocks = 0, grid = 0, block = 0;
  const char* name = NULL;
  OK(cuFuncGetName(&name, function));
  CHECK(strcmp(name, "scale") == 0);
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  CHECK(value == 1024);
  OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  CHECK(value == 65536);
  EXPECT(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
         CUDA_ERROR_INVALID_VALUE);
  OK(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_SHARED));
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 1024, 0));
  CHECK(blocks == 2); /* 2048 threads on a multiprocessor */
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0));
  CHECK(grid > 0 && block > 0 && block <= 1024);
}

int main(void) {
  CUcontext context;
  CUmodule module, owner;
  CUlibrary library;
  CUfunction function, same;
  CUkernel kernel;
  CUdeviceptr data;
  unsigned count = 256;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&data, 1024));

  OK(cuModuleLoadData(&module, kPtx));
  OK(cuModuleGetFunction(&function, module, "scale"));
  EXPECT(cuModuleGetFunction(&same, module, "absent"), CUDA_ERROR_NOT_FOUND);
  OK(cuFuncGetModule(&owner, function));
  CHECK(owner == module);
  check_function(function);
  void* arguments[2] = {&data, &count};
  OK(cuLaunchKernel(function, 2, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
  EXPECT(cuLaunchKernel(function, 0, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  CUlaunchConfig launch = {
      .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
  OK(cuLaunchKernelEx(&launch, function, arguments, NULL));

  OK(cuLibraryLoadData(&library, kPtx, NULL, NULL, 0, NULL, NULL, 0));
  OK(cuLibraryGetKernel(&kernel, library, "scale"));
  OK(cuKernelGetFunction(&same, kernel));
  OK(cuLaunchKernel(same, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
  OK(cuLibraryUnload(library));

  OK(cuModuleUnload(module));
#ifdef PHANTORA_MODEL
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_INVALID_HANDLE);
#endif
  return differences;
}
