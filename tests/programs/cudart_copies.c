/* covers: cudaMemcpy cudaMemcpyAsync cudaMemcpy2D cudaMemcpy2DAsync cudaMemcpyPeer cudaMemcpyPeerAsync cudaMemset
   cudaMemsetAsync cudaMemset2D cudaMemset2DAsync cudaMemset3D cudaMemset3DAsync
   cudaMemcpyBatchAsync */
#include <cuda_runtime_api.h>
#include <string.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

enum { BYTES = 4096 };

static void fill_bytes(unsigned char* bytes, unsigned char first) {
  for (int i = 0; i < BYTES; ++i) bytes[i] = (unsigned char)(first + i);
}

/* Pageable to device to device to pinned; afterwards the values are those that were sent. */
static void check_directions(unsigned char* a, unsigned char* b, cudaStream_t stream) {
  unsigned char sent[BYTES], *pinned;
  fill_bytes(sent, 7);
  OK(cudaMallocHost((void**)&pinned, BYTES));
  OK(cudaMemcpy(a, sent, BYTES, cudaMemcpyHostToDevice));
  OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDeviceToDevice, stream));
  OK(cudaMemcpyAsync(pinned, b, BYTES, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(memcmp(pinned, sent, BYTES) == 0);
  memset(pinned, 0, BYTES);
  OK(cudaMemcpy(pinned + 10, a + 20, 30, cudaMemcpyDefault));
  CHECK(memcmp(pinned + 10, sent + 20, 30) == 0 && pinned[9] == 0 && pinned[40] == 0);
  OK(cudaMemcpy(pinned, sent, BYTES, cudaMemcpyHostToHost));
  CHECK(memcmp(pinned, sent, BYTES) == 0);
  OK(cudaMemcpyAsync(sent, b, BYTES, cudaMemcpyDeviceToHost, stream)); /* to pageable memory: waits */
  CHECK(memcmp(pinned, sent, BYTES) == 0);
  /* Pinned memory has an address on the device, too. */
  memset(pinned, 0, BYTES);
  OK(cudaMemcpyAsync(pinned, b, BYTES, cudaMemcpyDeviceToDevice, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(memcmp(pinned, sent, BYTES) == 0);
  pinned[0] = 99;
  OK(cudaMemcpy(a, pinned, BYTES, cudaMemcpyDeviceToDevice));
  OK(cudaMemcpy(sent, a, BYTES, cudaMemcpyDeviceToHost));
  CHECK(memcmp(pinned, sent, BYTES) == 0);
  OK(cudaFreeHost(pinned));
}

static void check_rows(unsigned char* a, cudaStream_t stream) {
  unsigned char sent[BYTES], back[BYTES] = {0};
  fill_bytes(sent, 1);
  OK(cudaMemset(a, 0xee, BYTES));
  OK(cudaMemcpy2D(a, 100, sent, 16, 10, 3, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DAsync(back, 10, a, 100, 10, 3, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  for (int row = 0; row < 3; ++row) CHECK(memcmp(back + 10 * row, sent + 16 * row, 10) == 0);
  OK(cudaMemcpy(back, a, BYTES, cudaMemcpyDeviceToHost));
  CHECK(back[9] == sent[9] && back[10] == 0xee && back[99] == 0xee && back[210] == 0xee);
  OK(cudaMemcpy2D(a, 8, sent, 8, 0, 3, cudaMemcpyHostToDevice));
  EXPECT(cudaMemcpy2D(a, 8, sent, 16, 10, 3, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
  EXPECT(cudaMemcpy2DAsync(a, 16, sent, 8, 10, 3, cudaMemcpyHostToDevice, stream), cudaErrorInvalidPitchValue);
}

static void check_fills(unsigned char* a, cudaStream_t stream) {
  unsigned char back[4];
  OK(cudaMemset(a, 0x1ab, BYTES)); /* the low byte counts */
  OK(cudaMemsetAsync(a + 1, 0xcd, 2, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(back, a, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(back[0] == 0xab && back[1] == 0xcd && back[2] == 0xcd && back[3] == 0xab);
  OK(cudaMemset(a, 0, 0));
  EXPECT(cudaMemset(NULL, 0, 16), cudaErrorInvalidValue);
  EXPECT(cudaMemset(a, 0, (size_t)1 << 40), cudaErrorInvalidValue);
}

#if CUDART_VERSION >= 13000
#define COPY_BATCH(...) cudaMemcpyBatchAsync(__VA_ARGS__, stream)
#else
#define COPY_BATCH(...) cudaMemcpyBatchAsync(__VA_ARGS__, &failed, stream)
#endif

static void check_batches(unsigned char* a, unsigned char* b, cudaStream_t stream) {
  unsigned char sent[BYTES], back[BYTES] = {0};
  size_t failed = 0, sizes[] = {16, 8}, firsts[] = {0, 1}, twice[] = {0, 0}, none[] = {16, 0};
  struct cudaMemcpyAttributes attributes[2] = {{cudaMemcpySrcAccessOrderStream}, {cudaMemcpySrcAccessOrderAny}};
  void *to[] = {a, a + 100}, *from[] = {sent, b}, *nowhere[] = {a, NULL};
  fill_bytes(sent, 5);
  OK(cudaMemset(a, 0, BYTES));
  OK(cudaMemset(b, 9, BYTES));
  OK(COPY_BATCH(to, (void*)from, sizes, 2, attributes, firsts, 2));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(back, a, BYTES, cudaMemcpyDeviceToHost));
  CHECK(memcmp(back, sent, 16) == 0 && back[16] == 0 && back[99] == 0);
  CHECK(back[100] == 9 && back[107] == 9 && back[108] == 0);
  EXPECT(COPY_BATCH(to, (void*)from, sizes, 2, attributes, twice, 2), cudaErrorInvalidValue);
  EXPECT(COPY_BATCH(to, (void*)from, sizes, 1, attributes, firsts, 2), cudaErrorInvalidValue);
  EXPECT(COPY_BATCH(to, (void*)from, sizes, 2, NULL, firsts, 1), cudaErrorInvalidValue);
#ifdef PHANTORA_MODEL
  EXPECT(COPY_BATCH(nowhere, (void*)from, sizes, 2, attributes, firsts, 2), cudaErrorInvalidValue);
  EXPECT(COPY_BATCH(to, (void*)from, none, 2, attributes, firsts, 2), cudaErrorInvalidValue);
#endif
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  EXPECT(COPY_BATCH(to, (void*)from, sizes, 2, attributes, firsts, 2), cudaErrorInvalidValue);
  (void)failed, (void)nowhere, (void)none;
}

/* Rows and planes: what lies between them stays. */
static void check_filled_rows(unsigned char* a, cudaStream_t stream) {
  unsigned char back[BYTES];
  struct cudaPitchedPtr place = {a, 10, 10, 4};
  OK(cudaMemset(a, 0, BYTES));
  OK(cudaMemset2D(a, 10, 0x1ab, 4, 2));
  OK(cudaMemset2DAsync(a + 100, 8, 7, 8, 2, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(back, a, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(back[0] == 0xab && back[3] == 0xab && back[4] == 0 && back[9] == 0 && back[13] == 0xab && back[14] == 0);
  CHECK(back[99] == 0 && back[100] == 7 && back[115] == 7 && back[116] == 0);
  OK(cudaMemset3D(place, 1, (struct cudaExtent){3, 2, 2}));
  OK(cudaMemset3DAsync(place, 2, (struct cudaExtent){1, 1, 2}, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(back, a, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(back[0] == 2 && back[1] == 1 && back[3] == 0xab && back[10] == 1 && back[20] == 0);
  CHECK(back[40] == 2 && back[42] == 1 && back[43] == 0 && back[50] == 1 && back[52] == 1 && back[53] == 0);
  OK(cudaMemset2D(a, 10, 1, 0, 2));
  OK(cudaMemset3D(place, 1, (struct cudaExtent){3, 2, 0}));
  EXPECT(cudaMemset2D(NULL, 10, 1, 4, 2), cudaErrorInvalidValue);
  EXPECT(cudaMemset2D(a, 2, 1, 4, 2), cudaErrorInvalidValue);
  EXPECT(cudaMemset2D(a, (size_t)1 << 40, 1, 4, 2), cudaErrorInvalidValue);
  EXPECT(cudaMemset3D(place, 1, (struct cudaExtent){3, 2, (size_t)1 << 40}), cudaErrorInvalidValue);
}

static void check_misuse(unsigned char* a) {
  unsigned char bytes[64] = {0};
  OK(cudaMemcpy(a, bytes, 0, cudaMemcpyHostToDevice));
  EXPECT(cudaMemcpy(a, NULL, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT(cudaMemcpy(NULL, a, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT(cudaMemcpy(bytes, bytes + 32, 32, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT(cudaMemcpy(a, a + 64, 64, (enum cudaMemcpyKind)99), cudaErrorInvalidMemcpyDirection);
  EXPECT(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
#ifdef PHANTORA_MODEL
  EXPECT(cudaMemcpy(a + BYTES - 8, bytes, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue); /* past the end */
#endif
}

/* Between two GPUs, where there are two: the values arrive. */
static void check_peers(unsigned char* a) {
  int count;
  unsigned char *other, sent[BYTES], back[BYTES];
  OK(cudaGetDeviceCount(&count));
  if (count < 2) return;
  fill_bytes(sent, 3);
  OK(cudaSetDevice(1));
  OK(cudaMalloc((void**)&other, BYTES));
  OK(cudaMemset(other, 0, BYTES));
  OK(cudaSetDevice(0));
  OK(cudaMemcpy(a, sent, BYTES, cudaMemcpyHostToDevice));
  OK(cudaMemcpyPeerAsync(other, 1, a, 0, BYTES, NULL));
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(back, other, BYTES, cudaMemcpyDefault));
  CHECK(memcmp(back, sent, BYTES) == 0);
  EXPECT(cudaMemcpyPeerAsync(other, count, a, 0, BYTES, NULL), cudaErrorInvalidDevice);
  OK(cudaMemset(other, 0, BYTES));
  OK(cudaMemcpyPeer(a, 0, other, 1, 100));
  OK(cudaMemcpy(back, a, BYTES, cudaMemcpyDefault));
  CHECK(back[99] == 0 && back[100] == sent[100]);
  EXPECT(cudaMemcpyPeer(a, -1, other, 1, 100), cudaErrorInvalidDevice);
  OK(cudaFree(other));
}

int main(void) {
  unsigned char *a, *b;
  cudaStream_t stream;
  OK(cudaMalloc((void**)&a, BYTES));
  OK(cudaMalloc((void**)&b, BYTES));
  OK(cudaStreamCreate(&stream));
  check_directions(a, b, stream);
  check_rows(a, stream);
  check_fills(a, stream);
  check_filled_rows(a, stream);
  check_batches(a, b, stream);
  check_misuse(a);
  check_peers(a);
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(a));
  OK(cudaFree(b));
  return differences;
}
