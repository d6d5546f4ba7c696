/* covers: cudaStreamBeginCapture cudaStreamEndCapture cudaStreamIsCapturing cudaStreamGetCaptureInfo
   cudaThreadExchangeStreamCaptureMode cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaGraphUpload
   cudaGraphLaunch cudaGraphExecUpdate cudaGraphGetNodes cudaGraphNodeGetDependencies cudaGraphDestroy
   cudaGraphExecDestroy cudaUserObjectCreate cudaUserObjectRetain cudaUserObjectRelease cudaGraphRetainUserObject
   cudaGraphReleaseUserObject cudaEventRecordWithFlags cudaStreamWaitEvent
   cudaGraphDebugDotPrint */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static cudaStream_t stream, other;
static cudaEvent_t event, joined;
static int *memory, *host;

static void count(void* data) { ++*(int*)data; }

static enum cudaStreamCaptureStatus status_of(cudaStream_t of) {
  enum cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(of, &status));
  return status;
}

/* What is captured does not happen; each launch of the graph does it, on both streams, in the order of the events. */
static cudaGraph_t capture_two_streams(int* calls, int value) {
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive && status_of(other) == cudaStreamCaptureStatusNone);
  OK(cudaMemsetAsync(memory, value, 4, stream));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(other, event, 0));
  CHECK(status_of(other) == cudaStreamCaptureStatusActive);
  OK(cudaMemcpyAsync(memory + 1, memory, 4, cudaMemcpyDeviceToDevice, other));
  OK(cudaEventRecord(joined, other));
  OK(cudaLaunchHostFunc(stream, count, calls));
  OK(cudaStreamWaitEvent(stream, joined, 0));
  OK(cudaMemcpyAsync(host, memory, 8, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone && status_of(other) == cudaStreamCaptureStatusNone);
  return graph;
}

static void check_launches(void) {
  int calls = 0;
  size_t nodes = 0;
  cudaGraphExec_t exec;
  cudaGraphExecUpdateResultInfo info;
  OK(cudaMemset(memory, 0, 8));
  cudaGraph_t graph = capture_two_streams(&calls, 1);
  OK(cudaStreamSynchronize(stream));
  CHECK(calls == 0);
  OK(cudaGraphGetNodes(graph, NULL, &nodes));
  CHECK(nodes == 4);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphUpload(exec, stream));
  OK(cudaGraphDestroy(graph)); /* the other lives on */
  for (int i = 1; i <= 3; ++i) {
    host[0] = host[1] = 0;
    OK(cudaGraphLaunch(exec, i == 3 ? other : stream));
    OK(cudaDeviceSynchronize());
    CHECK(calls == i && host[0] == 0x01010101 && host[1] == 0x01010101);
  }
  graph = capture_two_streams(&calls, 2);
  OK(cudaGraphExecUpdate(exec, graph, &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(calls == 4 && host[1] == 0x02020202);
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaStreamEndCapture(stream, &graph)); /* an empty one */
  EXPECT(cudaGraphExecUpdate(exec, graph, &info), cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
}

static void check_dependencies(void) {
  enum cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t graph, same;
  cudaGraphNode_t node;
  const cudaGraphNode_t* last;
  size_t number = 9;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &last, NULL, &number));
  CHECK(status == cudaStreamCaptureStatusActive && id != 0 && number == 0);
  OK(cudaMemsetAsync(memory, 1, 4, stream));
  OK(cudaMemsetAsync(memory, 2, 4, stream));
  OK(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &last, NULL, &number));
  CHECK(number == 1);
  OK(cudaGraphNodeGetDependencies(last[0], NULL, NULL, &number));
  CHECK(number == 1);
  OK(cudaGraphNodeGetDependencies(last[0], &node, NULL, &number));
  OK(cudaGraphNodeGetDependencies(node, NULL, NULL, &number));
  CHECK(number == 0);
  OK(cudaStreamEndCapture(stream, &same));
  CHECK(same == graph);
  OK(cudaGraphDestroy(graph));
}

/* A file in Graphviz' language; what the labels say is the vendor's own. */
static void check_picture(void) {
  char path[] = "/tmp/graph-XXXXXX", text[1 << 16];
  cudaGraph_t graph;
  size_t length;
  FILE* file;
  close(mkstemp(path));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(cudaMemsetAsync(memory, 1, 4, stream));
  OK(cudaMemsetAsync(memory, 2, 4, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDebugDotPrint(graph, path, cudaGraphDebugDotFlagsVerbose));
  file = fopen(path, "r");
  CHECK(file != NULL);
  length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  unlink(path);
  text[length] = '\0';
  CHECK(strstr(text, "digraph") != NULL && strstr(text, "MEMSET") != NULL);
  CHECK(strstr(text, "->") != NULL && strstr(strstr(text, "->") + 2, "->") == NULL);
  EXPECT(cudaGraphDebugDotPrint(graph, "/nowhere/graph.dot", 0), cudaErrorOperatingSystem);
#ifdef PHANTORA_MODEL
  EXPECT(cudaGraphDebugDotPrint(NULL, path, 0), cudaErrorInvalidValue);
#endif
  OK(cudaGraphDestroy(graph));
}

/* Whether a launch can wait for the event, as it is now. */
static void wait_external(cudaEvent_t of, cudaError_t expected) {
  cudaGraph_t graph = NULL;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cudaStreamWaitEvent(stream, of, cudaEventWaitExternal), expected);
  EXPECT(cudaStreamEndCapture(stream, &graph), expected ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  if (graph != NULL) OK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

/* Events that a launch records and waits for as they are then. */
static void check_external_events(void) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaEvent_t fresh;
  OK(cudaEventCreateWithFlags(&fresh, cudaEventDisableTiming));
  wait_external(fresh, cudaSuccess);
  OK(cudaEventDestroy(fresh));
  wait_external(joined, cudaErrorInvalidValue); /* recorded in a capture, last */
  OK(cudaEventRecord(joined, other));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaStreamWaitEvent(stream, joined, cudaEventWaitExternal));
  OK(cudaMemsetAsync(memory, 3, 4, stream));
  OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaEventRecord(joined, other));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaEventSynchronize(event));
  OK(cudaEventQuery(event));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  EXPECT(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal), cudaErrorIllegalState);
}

static void end_invalid(cudaError_t expected) {
  cudaGraph_t graph = (cudaGraph_t)1;
  EXPECT(cudaStreamEndCapture(stream, &graph), expected);
  EXPECT(graph == NULL, 1);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  cudaGetLastError();
}

static void* end_elsewhere(void* of) {
  cudaGraph_t graph;
  EXPECT(cudaStreamEndCapture(of, &graph), cudaErrorStreamCaptureWrongThread);
  return NULL;
}

/* Work in both streams, of which only one began the capture. */
static void fork_capture(void) {
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemsetAsync(memory, 1, 4, stream));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(other, event, 0));
  OK(cudaMemsetAsync(memory, 1, 4, other));
}

static void check_ends(void) {
  cudaGraph_t graph;
  pthread_t thread;
  EXPECT(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)7), cudaErrorInvalidValue);
  EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  EXPECT(status_of(stream), cudaStreamCaptureStatusActive);
  CHECK(pthread_create(&thread, NULL, end_elsewhere, stream) == 0 && pthread_join(thread, NULL) == 0);
  EXPECT(status_of(stream), cudaStreamCaptureStatusNone); /* the wrong thread ended it all the same */
  EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  fork_capture();
  EXPECT(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT(status_of(stream), cudaStreamCaptureStatusInvalidated);
  end_invalid(cudaErrorStreamCaptureInvalidated);
  fork_capture();
  end_invalid(cudaErrorStreamCaptureUnjoined);
}

/* Every one of these spoils the capture. */
static void check_illegal_calls(void) {
  void* more;
#define ILLEGAL(call, code)                                                           \
  do {                                                                                \
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));                  \
    OK(cudaMemsetAsync(memory, 1, 4, stream));                                        \
    EXPECT(call, code);                                                               \
    EXPECT(status_of(stream), cudaStreamCaptureStatusInvalidated);                    \
    EXPECT(cudaMemsetAsync(memory, 1, 4, stream), cudaErrorStreamCaptureInvalidated); \
    end_invalid(cudaErrorStreamCaptureInvalidated);                                   \
  } while (0)
  OK(cudaEventRecord(event, other));
  ILLEGAL(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  ILLEGAL(cudaStreamQuery(stream), cudaErrorStreamCaptureUnsupported);
  ILLEGAL(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  ILLEGAL(cudaMalloc(&more, 64), cudaErrorStreamCaptureUnsupported);
  ILLEGAL(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);
  ILLEGAL(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
  ILLEGAL(cudaMemsetAsync(memory, 1, 4, NULL), cudaErrorStreamCaptureImplicit);
  OK(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(event, other));
  ILLEGAL(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureMerge);
  cudaGraph_t graph;
  EXPECT(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureInvalidated);
}

static void check_captured_event(void) {
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(event, stream));
  EXPECT(cudaEventQuery(event), cudaErrorCapturedEvent);
  end_invalid(cudaErrorStreamCaptureInvalidated);
  EXPECT(cudaEventSynchronize(event), cudaErrorInvalidValue); /* its capture has ended */
  EXPECT(cudaEventQuery(event), cudaErrorInvalidValue);
  EXPECT(cudaStreamWaitEvent(other, event, 0), cudaErrorInvalidValue);
  OK(cudaEventRecord(event, stream));
  OK(cudaEventSynchronize(event));
}

/* Who says that he knows what he does may allocate. */
static void check_modes(void) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaGraph_t graph;
  void* more;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  OK(cudaMalloc(&more, 64));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaFree(more));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
}

static void check_user_objects(void) {
  int ended = 0;
  cudaUserObject_t object;
  cudaGraph_t graph;
  EXPECT(cudaUserObjectCreate(&object, &ended, count, 1, 0), cudaErrorInvalidValue);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaUserObjectCreate(&object, &ended, count, 1, cudaUserObjectNoDestructorSync));
  OK(cudaUserObjectRetain(object, 1));
  OK(cudaGraphRetainUserObject(graph, object, 2, 0));
  OK(cudaGraphReleaseUserObject(graph, object, 1));
  OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  OK(cudaUserObjectRelease(object, 1));
  CHECK(ended == 0);
  OK(cudaGraphDestroy(graph));
#ifdef PHANTORA_MODEL
  CHECK(ended == 1); /* the vendor calls it from a thread of its own */
  EXPECT(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  EXPECT(cudaGraphLaunch(NULL, stream), cudaErrorInvalidValue);
#endif
}

int main(void) {
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  OK(cudaMalloc((void**)&memory, 8));
  OK(cudaMallocHost((void**)&host, 8));
  check_launches();
  check_dependencies();
  check_picture();
  check_external_events();
  check_ends();
  check_illegal_calls();
  check_captured_event();
  check_modes();
  check_user_objects();
  OK(cudaDeviceSynchronize());
  return differences;
}
