/* covers: cudaEventCreate cudaEventCreateWithFlags cudaEventDestroy cudaEventElapsedTime cudaEventQuery
   cudaEventRecord cudaEventRecordWithFlags cudaEventSynchronize */
#include <cuda_runtime_api.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static void check_timing(cudaEvent_t start, cudaEvent_t end, cudaStream_t stream) {
  float milliseconds = -1;
  void* memory;
  OK(cudaMalloc(&memory, 64 << 20));
  OK(cudaEventRecord(start, stream));
  for (int i = 0; i < 100; ++i) OK(cudaMemsetAsync(memory, i, 64 << 20, stream));
  OK(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault));
  OK(cudaEventSynchronize(end));
  OK(cudaEventQuery(start));
  OK(cudaEventQuery(end));
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 0 && milliseconds < 60000);
  OK(cudaEventElapsedTime(&milliseconds, start, start));
  CHECK(milliseconds == 0);
  EXPECT(cudaEventElapsedTime(NULL, start, end), cudaErrorInvalidValue);
  OK(cudaFree(memory));
}

static void check_misuse(cudaEvent_t recorded, cudaStream_t stream) {
  cudaEvent_t fresh, untimed;
  float milliseconds;
  OK(cudaEventCreateWithFlags(&fresh, cudaEventBlockingSync));
  OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  OK(cudaEventQuery(fresh)); /* what was never recorded is done */
  OK(cudaEventSynchronize(fresh));
  EXPECT(cudaEventElapsedTime(&milliseconds, recorded, fresh), cudaErrorInvalidResourceHandle);
  EXPECT(cudaEventElapsedTime(&milliseconds, fresh, recorded), cudaErrorInvalidResourceHandle);
  OK(cudaEventRecord(untimed, stream));
  OK(cudaEventSynchronize(untimed));
  EXPECT(cudaEventElapsedTime(&milliseconds, recorded, untimed), cudaErrorInvalidResourceHandle);
  EXPECT(cudaEventCreateWithFlags(&fresh, 0x100), cudaErrorInvalidValue);
  EXPECT(cudaEventCreateWithFlags(&fresh, cudaEventInterprocess), cudaErrorInvalidValue); /* with timing */
  EXPECT(cudaEventCreate(NULL), cudaErrorInvalidValue);
  EXPECT(cudaEventRecord(NULL, stream), cudaErrorInvalidResourceHandle);
  EXPECT(cudaEventQuery(NULL), cudaErrorInvalidResourceHandle);
  OK(cudaEventDestroy(untimed));
  OK(cudaEventDestroy(fresh));
#ifdef PHANTORA_MODEL
  EXPECT(cudaEventDestroy(untimed), cudaErrorInvalidResourceHandle);
  EXPECT(cudaEventRecord(untimed, stream), cudaErrorInvalidResourceHandle);
  EXPECT(cudaEventSynchronize(untimed), cudaErrorInvalidResourceHandle);
  EXPECT(cudaStreamWaitEvent(stream, untimed, 0), cudaErrorInvalidResourceHandle);
#endif
}

int main(void) {
  cudaEvent_t start, end;
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  check_timing(start, end, stream);
  check_timing(end, start, NULL); /* an event may be recorded again */
  check_misuse(start, stream);
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(end));
  return differences;
}
