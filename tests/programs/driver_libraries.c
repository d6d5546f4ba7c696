/* covers: cuModuleLoad cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleGetLoadingMode cuFuncLoad cuFuncIsLoaded
   cuLibraryLoadFromFile cuKernelGetName cuKernelGetAttribute cuKernelSetAttribute cuKernelSetCacheConfig
   cuLaunchCooperativeKernel cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters */
#include <cuda.h>
#include <unistd.h>

#include "code_object.h"
#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

static void check_function(CUmodule module) {
  CUfunction function;
  CUfunctionLoadingState state;
  CUdeviceptr data = 0;
  unsigned count = 0;
  int blocks = 0, clusters = 0, major = 0;
  void* arguments[2] = {&data, &count};
  OK(cuModuleGetFunction(&function, module, "scale"));
  OK(cuFuncLoad(function));
  OK(cuFuncIsLoaded(&state, function));
  CHECK(state == CU_FUNCTION_LOADING_STATE_LOADED);
  OK(cuLaunchCooperativeKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, arguments));
  OK(cuCtxSynchronize());
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 512, 0, 0));
  CHECK(blocks >= 1);
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  CUlaunchAttribute pair = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
  CUlaunchConfig launch = {.gridDimX = 2,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = 128,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .attrs = &pair,
                           .numAttrs = 1};
  if (major >= 9) OK(cuOccupancyMaxActiveClusters(&clusters, function, &launch));
  CHECK(major < 9 || clusters >= 1);
  OK(cuModuleUnload(module));
}

static void check_library(const char* path) {
  CUlibrary library;
  CUkernel kernel;
  const char* name = NULL;
  int value = 0;
  OK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
  OK(cuLibraryGetKernel(&kernel, library, "scale"));
  EXPECT(cuLibraryGetKernel(&kernel, library, "absent"), CUDA_ERROR_NOT_FOUND);
  OK(cuLibraryGetKernel(&kernel, library, "scale"));
  OK(cuKernelGetName(&name, kernel));
  CHECK(strcmp(name, "scale") == 0);
  OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 0));
  OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
  CHECK(value == 65536);
  OK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0));
  OK(cuLibraryUnload(library));
}

int main(void) {
  CUcontext context;
  CUmodule module;
  CUmoduleLoadingMode mode;
  char path[] = "/tmp/code-object-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0 && write(file, kPtx, sizeof kPtx - 1) == sizeof kPtx - 1 && close(file) == 0);
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleGetLoadingMode(&mode));
  CHECK(mode == CU_MODULE_LAZY_LOADING || mode == CU_MODULE_EAGER_LOADING);
  OK(cuModuleLoad(&module, path));
  check_function(module);
  OK(cuModuleLoadDataEx(&module, kPtx, 0, NULL, NULL));
  check_function(module);
  OK(cuModuleLoadFatBinary(&module, make_fat_binary()));
  check_function(module);
  check_library(path);
  unlink(path);
  EXPECT(cuModuleLoad(&module, path), CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
  return differences;
}
