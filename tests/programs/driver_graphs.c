/* covers: cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamIsCapturing cuStreamGetCaptureInfo_v3
   cuThreadExchangeStreamCaptureMode cuGraphInstantiateWithFlags cuGraphLaunch cuGraphGetNodes cuGraphDestroy
   cuGraphExecDestroy cuGraphDebugDotPrint */
#include <cuda.h>

#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

static void check_graph(CUstream stream, CUdeviceptr memory) {
  CUstreamCaptureStatus status;
  CUgraph graph, same;
  CUgraphExec exec;
  CUgraphNode node;
  const CUgraphNode* last;
  cuuint64_t id;
  size_t number = 1;
  unsigned value = 7;
  OK(cuMemsetD32(memory, 0, 1));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemsetD32Async(memory, 5, 1, stream));
  OK(cuStreamGetCaptureInfo(stream, &status, &id, &same, &last, NULL, &number));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && number == 1);
  OK(cuStreamEndCapture(stream, &graph));
  CHECK(graph == same);
  OK(cuGraphGetNodes(graph, &node, &number));
  CHECK(number == 1);
  OK(cuGraphDebugDotPrint(graph, "/dev/null", 0));
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cuMemcpyDtoH(&value, memory, 4));
  CHECK(value == 0);
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(&value, memory, 4));
  CHECK(value == 5);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

static void check_misuse(CUstream stream) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUstreamCaptureStatus status;
  CUgraph graph;
  CUdeviceptr more;
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT(cuMemAlloc(&more, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  OK(cuStreamIsCapturing(stream, &status));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(graph == NULL);
}

int main(void) {
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUdeviceptr memory;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&memory, 4));
  check_graph(stream, memory);
  check_misuse(stream);
  OK(cuMemFree(memory));
  OK(cuStreamDestroy(stream));
  return differences;
}
