/* covers: cudaStreamWaitEvent cuStreamWaitEvent cudaEventRecordWithFlags cuEventRecordWithFlags cudaStreamAddCallback
   cuStreamAddCallback cudaEventCreateWithFlags cuEventCreate */
/* The runtime API and the driver API answer alike: each line calls both with the same arguments. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "program.h"

#define OK(call) REQUIRE((int)(call), 0)
#define BOTH(runtime, driver, code) \
  do {                              \
    EXPECT((int)(runtime), code);   \
    EXPECT((int)(driver), code);    \
  } while (0)

enum { kInvalidValue = 1, kInvalidHandle = 400, kIllegalState = 401 };

static void ignore_status(cudaStream_t stream, cudaError_t status, void* data) {
  (void)stream, (void)status, (void)data;
}
static void ignore_result(CUstream stream, CUresult status, void* data) { (void)stream, (void)status, (void)data; }

#ifdef PHANTORA_MODEL
static void check_destroyed(cudaStream_t stream, cudaEvent_t event) {
  cudaStream_t gone;
  cudaEvent_t old;
  OK(cudaStreamCreate(&gone));
  OK(cudaStreamDestroy(gone));
  OK(cudaEventCreate(&old));
  OK(cudaEventDestroy(old));
  BOTH(cudaStreamDestroy(gone), cuStreamDestroy(gone), kInvalidHandle);
  BOTH(cudaStreamSynchronize(gone), cuStreamSynchronize(gone), kInvalidHandle);
  BOTH(cudaStreamQuery(gone), cuStreamQuery(gone), kInvalidHandle);
  BOTH(cudaStreamWaitEvent(gone, event, 0), cuStreamWaitEvent(gone, event, 0), kInvalidHandle);
  BOTH(cudaStreamWaitEvent(stream, old, 0), cuStreamWaitEvent(stream, old, 0), kInvalidHandle);
  BOTH(cudaStreamGetId(gone, 0), cuStreamGetId(gone, 0), kInvalidHandle);
  BOTH(cudaEventRecord(old, stream), cuEventRecord(old, stream), kInvalidHandle);
  BOTH(cudaEventQuery(old), cuEventQuery(old), kInvalidHandle);
  BOTH(cudaEventSynchronize(old), cuEventSynchronize(old), kInvalidHandle);
  BOTH(cudaEventDestroy(old), cuEventDestroy(old), kInvalidHandle);
}
#endif

static void check_bad_arguments(cudaStream_t stream, cudaEvent_t event) {
  cudaStream_t made_stream;
  cudaEvent_t made;
  BOTH(cudaStreamCreateWithFlags(&made_stream, 0x80), cuStreamCreate(&made_stream, 0x80), kInvalidValue);
  BOTH(cudaStreamWaitEvent(stream, event, 8), cuStreamWaitEvent(stream, event, 8), kInvalidValue);
  BOTH(cudaStreamAddCallback(stream, 0, 0, 0), cuStreamAddCallback(stream, 0, 0, 0), kInvalidValue);
  BOTH(cudaStreamAddCallback(stream, ignore_status, 0, 1), cuStreamAddCallback(stream, ignore_result, 0, 1),
       kInvalidValue);
  BOTH(cudaEventCreateWithFlags(&made, 0x80), cuEventCreate(&made, 0x80), kInvalidValue);
  BOTH(cudaEventCreateWithFlags(&made, cudaEventInterprocess), cuEventCreate(&made, CU_EVENT_INTERPROCESS),
       kInvalidValue); /* with times */
  BOTH(cudaEventRecordWithFlags(event, stream, 8), cuEventRecordWithFlags(event, stream, 8), kInvalidValue);
}

static void check_no_place(cudaStream_t stream) {
  BOTH(cudaStreamCreateWithFlags(0, 0), cuStreamCreate(0, 0), kInvalidValue);
  BOTH(cudaStreamGetFlags(stream, 0), cuStreamGetFlags(stream, 0), kInvalidValue);
  BOTH(cudaStreamGetPriority(stream, 0), cuStreamGetPriority(stream, 0), kInvalidValue);
  EXPECT_OF_OURS((int)cudaStreamGetDevice(stream, 0), kInvalidValue);
  EXPECT_OF_OURS((int)cuStreamGetDevice(stream, 0), kInvalidValue);
}

/* Events of the program that a graph's launches record and wait for: only in a capture. */
static void check_external_events(cudaStream_t stream, cudaEvent_t event) {
  cudaGraph_t graph;
  cudaGraphNode_t nodes[4];
  size_t count = 4;
  BOTH(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal),
       cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL), kIllegalState);
  BOTH(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal),
       cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL), kIllegalState);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  BOTH(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal),
       cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL), 0);
  BOTH(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal),
       cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL), 0);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphGetNodes(graph, nodes, &count));
  CHECK(count == 4);
  for (size_t i = 0; i < count; ++i) {
    enum cudaGraphNodeType type;
    OK(cudaGraphNodeGetType(nodes[i], &type));
    CHECK(type == (i < 2 ? cudaGraphNodeTypeWaitEvent : cudaGraphNodeTypeEventRecord));
  }
  OK(cudaGraphDestroy(graph));
}

int main(void) {
  cudaStream_t stream;
  cudaEvent_t event;
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event, stream));
#ifdef PHANTORA_MODEL
  check_destroyed(stream, event);
#endif
  check_bad_arguments(stream, event);
  check_external_events(stream, event);
  check_no_place(stream);
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(stream));
  return differences;
}
