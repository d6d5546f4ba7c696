/* covers: cuMemAllocAsync cuMemFreeAsync cuMemAllocPitch_v2 cuMemHostAlloc cuMemHostGetDevicePointer_v2
   cuMemHostRegister_v2 cuMemHostUnregister cuMemcpy cuMemcpyAsync cuMemcpyDtoD_v2 cuMemcpyPeer cuMemcpyPeerAsync
   cuMemcpy2D_v2 cuMemcpy2DAsync_v2 cuMemcpy2DUnaligned_v2 cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD16Async
   cuMemsetD32Async cuMemsetD2D8_v2 cuMemsetD2D16_v2 cuMemsetD2D32_v2 cuMemsetD2D8Async cuMemsetD2D16Async
   cuMemsetD2D32Async cuMemcpyBatchAsync cuMemcpyBatchAsync_v2 cuPointerSetAttribute */
#include <cuda.h>
#include <string.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

enum { BYTES = 4096 };

static void check_allocations(CUstream stream) {
  CUdeviceptr memory, address;
  size_t pitch = 0;
  char *pinned, registered[BYTES];
  unsigned on = 1;
  OK(cuMemAllocAsync(&memory, BYTES, stream));
  OK(cuMemsetD8Async(memory, 1, BYTES, stream));
  OK(cuMemFreeAsync(memory, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemAllocPitch(&memory, &pitch, 1000, 10, 4));
  CHECK(pitch >= 1000 && pitch % 256 == 0);
  OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
  OK(cuMemFree(memory));
  EXPECT(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemHostAlloc((void**)&pinned, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cuMemHostGetDevicePointer(&address, pinned + 8, 0));
  CHECK(address == (CUdeviceptr)(pinned + 8));
  OK(cuMemFreeHost(pinned));
  OK(cuMemHostRegister(registered, BYTES, 0));
  EXPECT(cuMemHostRegister(registered, BYTES, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(cuMemHostUnregister(registered));
  EXPECT(cuMemHostUnregister(registered), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static void check_copies(CUdeviceptr a, CUdeviceptr b, CUcontext context, CUstream stream) {
  char sent[64], back[64] = {0};
  memset(sent, 'x', sizeof sent);
  OK(cuMemcpy(a, (CUdeviceptr)sent, sizeof sent));
  OK(cuMemcpyDtoD(b, a, 32));
  OK(cuMemcpyPeer(b + 32, context, a + 32, context, 16));
  OK(cuMemcpyPeerAsync(b + 48, context, a + 48, context, 16, stream));
  OK(cuMemcpyAsync((CUdeviceptr)back, b, sizeof back, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(memcmp(back, sent, sizeof sent) == 0);
  EXPECT(cuMemcpyDtoD(b, 0, 32), CUDA_ERROR_INVALID_VALUE);
}

static void check_rows(CUdeviceptr a, CUstream stream) {
  char sent[64] = "abcdefghijklmnopqrstuvwxyz", back[64] = {0};
  CUDA_MEMCPY2D of = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                      .srcHost = sent,
                      .srcPitch = 10,
                      .srcXInBytes = 1,
                      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                      .dstDevice = a,
                      .dstPitch = 512,
                      .dstY = 1,
                      .WidthInBytes = 3,
                      .Height = 2};
  OK(cuMemcpy2D(&of));
  OK(cuMemcpyDtoH(back, a + 512, 3));
  OK(cuMemcpyDtoH(back + 3, a + 1024, 3));
  CHECK(memcmp(back, "bcdlmn", 6) == 0);
  of.srcXInBytes = 2;
  OK(cuMemcpy2DUnaligned(&of));
  of.dstXInBytes = 3;
  OK(cuMemcpy2DAsync(&of, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(back, a + 1024, 6));
  CHECK(memcmp(back, "mnomno", 6) == 0);
  EXPECT(cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void check_fills(CUdeviceptr a, CUstream stream) {
  unsigned char back[16];
  OK(cuMemsetD8(a, 0x11, 16));
  OK(cuMemsetD16(a + 2, 0x2233, 1));
  OK(cuMemsetD16Async(a + 4, 0x4455, 2, stream));
  OK(cuMemsetD32Async(a + 8, 0x66778899, 1, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(back, a, sizeof back));
  CHECK(memcmp(back, "\x11\x11\x33\x22\x55\x44\x55\x44\x99\x88\x77\x66\x11\x11\x11\x11", 16) == 0);
  EXPECT(cuMemsetD16(a + 1, 0, 1), CUDA_ERROR_INVALID_VALUE); /* not a multiple of its size */
  EXPECT(cuMemsetD8(0, 0, 16), CUDA_ERROR_INVALID_VALUE);
}

static void check_filled_rows(CUdeviceptr a, CUstream stream) {
  unsigned char back[24];
  OK(cuMemsetD8(a, 0, sizeof back));
  OK(cuMemsetD2D8(a, 4, 0x11, 2, 2));
  OK(cuMemsetD2D16(a + 8, 4, 0x2233, 1, 2));
  OK(cuMemsetD2D32(a + 16, 4, 0x44556677, 1, 1));
  OK(cuMemsetD2D8Async(a + 20, 2, 0x55, 1, 2, stream));
  OK(cuMemsetD2D16Async(a + 14, 0, 0x6677, 1, 1, stream));
  OK(cuMemsetD2D32Async(a, 4, 0x8899aabb, 1, 1, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(back, a, sizeof back));
  CHECK(memcmp(back, "\xbb\xaa\x99\x88\x11\x11\0\0\x33\x22\0\0\x33\x22\x77\x66", 16) == 0);
  CHECK(memcmp(back + 16, "\x77\x66\x55\x44\x55\0\x55\0", 8) == 0);
  EXPECT(cuMemsetD2D16(a, 3, 0, 1, 2), CUDA_ERROR_INVALID_VALUE); /* rows at odd addresses */
  EXPECT(cuMemsetD2D32(a + 2, 4, 0, 1, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemsetD2D8(0, 4, 0, 1, 2), CUDA_ERROR_INVALID_VALUE);
}

/* What the header calls cuMemcpyBatchAsync is the second form. */
#undef cuMemcpyBatchAsync
CUresult cuMemcpyBatchAsync(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, size_t*,
                            CUstream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t,
                               CUstream);

/* The form for which a program asks by a version. */
static void* form_of(int version) {
  CUdriverProcAddressQueryResult found;
  void* function = NULL;
  OK(cuGetProcAddress("cuMemcpyBatchAsync", &function, version, 0, &found));
  return function;
}

static void check_batches(CUdeviceptr a, CUdeviceptr b, CUstream stream) {
  char back[16];
  size_t failed = 0, sizes[] = {4, 4}, first = 0;
  CUdeviceptr to[] = {a, a + 8}, from[] = {b, b + 4}, wrong[] = {b, 0};
  CUmemcpyAttributes attributes = {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
  OK(cuMemcpyHtoD(b, "abcdefgh", 8));
  OK(cuMemsetD8(a, '-', sizeof back));
  OK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, &failed, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(back, a, sizeof back));
  CHECK(memcmp(back, "abcd----efgh----", 16) == 0);
  OK(cuMemcpyBatchAsync_v2(from, to, sizes, 1, &attributes, &first, 1, stream));
#ifdef PHANTORA_MODEL
  EXPECT(cuMemcpyBatchAsync(to, wrong, sizes, 2, &attributes, &first, 1, &failed, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK(failed == 1);
#endif
  EXPECT(cuMemcpyBatchAsync_v2(to, wrong, sizes, 0, &attributes, &first, 1, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK(form_of(12080) == (void*)cuMemcpyBatchAsync && form_of(13000) == (void*)cuMemcpyBatchAsync_v2);
  (void)wrong;
}

int main(void) {
  CUcontext context;
  CUstream stream;
  CUdeviceptr a, b;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  OK(cuMemAlloc(&a, BYTES));
  OK(cuMemAlloc(&b, BYTES));
  check_allocations(stream);
  check_copies(a, b, context, stream);
  check_rows(a, stream);
  check_fills(a, stream);
  check_filled_rows(a, stream);
  check_batches(a, b, stream);
  OK(cuMemFree(a));
  OK(cuMemFree(b));
  OK(cuDevicePrimaryCtxRelease(0));
  return differences;
}
