/* covers: cuTensorMapEncodeTiled cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide cuTensorMapReplaceAddress */
#include <cuda.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

/* A tensor map of rank two, as matrix products describe their operands. Fields are changed to be wrong. */
struct matrix {
  CUtensorMapDataType type;
  cuuint32_t rank, box[2], steps[2];
  cuuint64_t address, dims[2], strides[1];
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

static CUtensorMap map;

static CUresult encode(struct matrix of) {
  return cuTensorMapEncodeTiled(&map, of.type, of.rank, (void*)of.address, of.dims, of.strides, of.box, of.steps,
                                of.interleave, of.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, of.fill);
}

static struct matrix make_matrix(CUdeviceptr memory) {
  return (struct matrix){.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                         .rank = 2,
                         .box = {64, 128},
                         .steps = {1, 1},
                         .address = memory,
                         .dims = {512, 256},
                         .strides = {1024},
                         .swizzle = CU_TENSOR_MAP_SWIZZLE_128B};
}

static void check_limits(CUdeviceptr memory) {
  struct matrix wrong;
#define REFUSED(field, value)                        \
  do {                                               \
    wrong = make_matrix(memory);                     \
    wrong.field = value;                             \
    EXPECT(encode(wrong), CUDA_ERROR_INVALID_VALUE); \
  } while (0)
  REFUSED(type, (CUtensorMapDataType)99);
  REFUSED(rank, 0);
  REFUSED(rank, 6);
  REFUSED(address, memory + 8);
  REFUSED(dims[0], 0);
  REFUSED(dims[1], (1ull << 32) + 1);
  REFUSED(strides[0], 1032);
  REFUSED(strides[0], 1ull << 40);
  REFUSED(box[1], 0);
  REFUSED(box[1], 257);
  REFUSED(box[0], 68);  /* not of 16 bytes */
  REFUSED(box[0], 128); /* wider than the swizzle */
  REFUSED(steps[1], 0);
  REFUSED(steps[1], 9);
  REFUSED(interleave, CU_TENSOR_MAP_INTERLEAVE_16B); /* wants three dimensions */
  wrong = make_matrix(memory);
  wrong.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
  OK(encode(wrong));
  wrong.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  EXPECT(encode(wrong), CUDA_ERROR_INVALID_VALUE);
}

static void check_images(CUdeviceptr memory) {
  const cuuint64_t dims[4] = {64, 32, 32, 8}, strides[3] = {128, 4096, 131072};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const int lower[2] = {-1, -1}, upper[2] = {-1, -1}, far_off[2] = {-200, 0};
#define IMAGE(rank, from, channels, pixels)                                                                       \
  cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void*)memory, dims, strides, from, upper, \
                          channels, pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,     \
                          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
  OK(IMAGE(4, lower, 64, 128));
  EXPECT(IMAGE(2, lower, 64, 128), CUDA_ERROR_INVALID_VALUE);
  EXPECT(IMAGE(4, far_off, 64, 128), CUDA_ERROR_INVALID_VALUE);
  EXPECT(IMAGE(4, lower, 257, 128), CUDA_ERROR_INVALID_VALUE);
  EXPECT(IMAGE(4, lower, 64, 1025), CUDA_ERROR_INVALID_VALUE);
#ifdef PHANTORA_MODEL
  /* Of Blackwell. */
  EXPECT(cuTensorMapEncodeIm2colWide(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void*)memory, dims, strides, -1, -1, 64,
                                     128, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
                                     CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
         CUDA_ERROR_NOT_SUPPORTED);
#endif
}

#ifdef PHANTORA_MODEL
/* What a kernel may write through a map is no longer known, and reads as zeros. */
static void check_writes(CUdeviceptr memory) {
  static const char kWriter[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry writer(.param .align 64 .b8 writer_map[128])\n{ ret; }\n";
  CUmodule module;
  CUfunction function;
  unsigned value = 0;
  void* arguments[] = {&map};
  OK(cuModuleLoadData(&module, kWriter));
  OK(cuModuleGetFunction(&function, module, "writer"));
  OK(encode(make_matrix(memory + 4096)));
  OK(cuTensorMapReplaceAddress(&map, (void*)memory));
  OK(cuMemsetD32(memory, 5, 1));
  OK(cuMemcpyDtoH(&value, memory, 4));
  CHECK(value == 5);
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
  OK(cuMemcpyDtoH(&value, memory, 4));
  CHECK(value == 0);
  OK(cuModuleUnload(module));
}
#endif

int main(void) {
  CUcontext context;
  CUdeviceptr memory;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&memory, 4 << 20));
  OK(encode(make_matrix(memory)));
  OK(encode(make_matrix(0))); /* an address that comes later */
  EXPECT(cuTensorMapReplaceAddress(&map, (void*)(memory + 8)), CUDA_ERROR_INVALID_VALUE);
  OK(cuTensorMapReplaceAddress(&map, (void*)(memory + 16)));
  check_limits(memory);
  check_images(memory);
#ifdef PHANTORA_MODEL
  check_writes(memory);
#endif
  OK(cuMemFree(memory));
  return differences;
}
