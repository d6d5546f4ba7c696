/* covers: cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamDestroy
   cudaStreamSynchronize cudaStreamQuery cudaStreamWaitEvent cudaStreamGetPriority cudaStreamGetDevice
   cudaStreamGetFlags cudaStreamGetId
   cudaStreamIsCapturing cudaStreamGetCaptureInfo cudaThreadExchangeStreamCaptureMode cudaStreamAddCallback
   cudaLaunchHostFunc cudaDeviceGetStreamPriorityRange cudaDeviceSynchronize */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static void check_creation(void) {
  cudaStream_t stream;
  int least, greatest, priority, device = -1;
  unsigned flags = 9;
  unsigned long long first = 0, second = 0;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(least == 0 && greatest < least);
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == 0);
  OK(cudaStreamGetDevice(stream, &device));
  CHECK(device == 0);
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
  OK(cudaStreamGetFlags(stream, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  OK(cudaStreamGetId(stream, &first));
  OK(cudaStreamGetId(NULL, &second));
  CHECK(first != second);
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamDefault, greatest - 100)); /* clamped */
  OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
  OK(cudaStreamDestroy(stream));
  EXPECT(cudaStreamCreateWithFlags(&stream, 0x80), cudaErrorInvalidValue);
  EXPECT(cudaStreamCreate(NULL), cudaErrorInvalidValue);
  EXPECT(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
}

static void check_stream(cudaStream_t stream) {
  cudaEvent_t event;
  void* memory;
  OK(cudaMalloc(&memory, 1 << 20));
  OK(cudaMemsetAsync(memory, 0, 1 << 20, stream));
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaStreamWaitEvent(stream, event, 0)); /* not recorded: nothing to wait for */
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(NULL, event, cudaEventWaitDefault));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamQuery(stream));
  OK(cudaDeviceSynchronize());
  OK(cudaStreamQuery(NULL));
  EXPECT(cudaStreamWaitEvent(stream, NULL, 0), cudaErrorInvalidResourceHandle);
  OK(cudaEventDestroy(event));
  OK(cudaFree(memory));
}

static void check_capture(cudaStream_t stream) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  unsigned long long id = 0;
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  OK(cudaStreamIsCapturing(stream, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  EXPECT(cudaStreamIsCapturing(stream, NULL), cudaErrorInvalidValue);
  OK(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
  CHECK(status == cudaStreamCaptureStatusNone);
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
}

static void append(void* data) {
  int* seen = data;
  seen[++seen[0]] = 1;
}

static void CUDART_CB append_status(cudaStream_t stream, cudaError_t status, void* data) {
  int* seen = data;
  (void)stream;
  seen[++seen[0]] = status == cudaSuccess ? 2 : -1;
}

static void CUDART_CB read_copied(void* data) {
  int* values = data; /* a copy that was issued before the function wrote the first */
  values[1] = values[0] + 1;
}

/* Host functions run in the order of their stream, after the copies before them. */
static void check_host_functions(cudaStream_t stream) {
  int seen[4] = {0}, *values, *memory;
  OK(cudaLaunchHostFunc(stream, append, seen));
  OK(cudaStreamAddCallback(stream, append_status, seen, 0));
  OK(cudaLaunchHostFunc(stream, append, seen));
  OK(cudaStreamSynchronize(stream));
  CHECK(seen[0] == 3 && seen[1] == 1 && seen[2] == 2 && seen[3] == 1);
  OK(cudaMallocHost((void**)&values, 2 * sizeof(int)));
  OK(cudaMalloc((void**)&memory, sizeof(int)));
  values[0] = 41;
  OK(cudaMemcpyAsync(memory, values, sizeof(int), cudaMemcpyHostToDevice, stream));
  OK(cudaStreamSynchronize(stream));
  values[0] = 0;
  OK(cudaMemcpyAsync(values, memory, sizeof(int), cudaMemcpyDeviceToHost, stream));
  OK(cudaLaunchHostFunc(stream, read_copied, values));
  OK(cudaStreamSynchronize(stream));
  CHECK(values[0] == 41 && values[1] == 42);
  EXPECT(cudaLaunchHostFunc(stream, NULL, seen), cudaErrorInvalidValue);
  EXPECT(cudaStreamAddCallback(stream, NULL, seen, 0), cudaErrorInvalidValue);
  EXPECT(cudaStreamAddCallback(stream, append_status, seen, 1), cudaErrorInvalidValue);
  OK(cudaFree(memory));
  OK(cudaFreeHost(values));
}

static void* use_default_streams(void* data) {
  (void)data;
  check_stream(cudaStreamPerThread);
  check_stream(cudaStreamLegacy);
  return NULL;
}

int main(void) {
  cudaStream_t blocking, apart;
  pthread_t thread;
  check_creation();
  OK(cudaStreamCreate(&blocking));
  OK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  const cudaStream_t streams[5] = {NULL, cudaStreamLegacy, cudaStreamPerThread, blocking, apart};
  for (int i = 0; i < 5; ++i) {
    check_stream(streams[i]);
    check_host_functions(streams[i]);
  }
  check_capture(blocking);
  CHECK(pthread_create(&thread, NULL, use_default_streams, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  OK(cudaStreamDestroy(blocking));
  OK(cudaStreamDestroy(apart));
#ifdef PHANTORA_MODEL
  EXPECT(cudaStreamDestroy(blocking), cudaErrorInvalidResourceHandle);
  EXPECT(cudaStreamSynchronize(blocking), cudaErrorInvalidResourceHandle);
  EXPECT(cudaStreamQuery(apart), cudaErrorInvalidResourceHandle);
  EXPECT(cudaMemsetAsync(NULL, 0, 0, apart), cudaErrorInvalidResourceHandle);
  OK(cudaStreamCreate(&apart)); /* takes the place of the old one, which stays invalid */
  EXPECT(cudaStreamQuery(blocking), cudaErrorInvalidResourceHandle);
#endif
  return differences;
}
