/* covers: cuGraphCreate cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddHostNode
   cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode cuGraphAddChildGraphNode
   cuGraphExecKernelNodeSetParams_v2 cuGraphExecUpdate_v2 cuGraphNodeGetType cuGraphDestroyNode
   cuGraphAddDependencies_v2 cuMemAllocAsync cuMemFreeAsync */
#include <cuda.h>

#include "code_object.h"
#include "program.h"

#define OK(call) REQUIRE(call, CUDA_SUCCESS)

static CUcontext context;
static CUstream stream;
static CUdeviceptr memory;

static void CUDA_CB count(void* data) { ++*(int*)data; }

/* A fill, a kernel, a copy out and a call, one after the other; `fill` is what is filled in. */
static CUgraph build(CUfunction function, unsigned* out, int* calls, unsigned fill_value, CUgraphNode* kernel) {
  CUgraph graph;
  CUgraphNode fill, copy, end, empty;
  CUgraphNodeType type;
  unsigned elements = 64;
  void* arguments[2] = {&memory, &elements};
  CUDA_MEMSET_NODE_PARAMS fill_of = {memory + 4, 0, fill_value, 4, 1, 1};
  CUDA_KERNEL_NODE_PARAMS kernel_of = {.func = function,
                                       .gridDimX = 1,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 32,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = arguments};
  CUDA_MEMCPY3D copy_of = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = memory + 4,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = out,
                           .srcPitch = 4,
                           .dstPitch = 4,
                           .WidthInBytes = 4,
                           .Height = 1,
                           .Depth = 1};
  CUDA_HOST_NODE_PARAMS host_of = {count, calls};
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddKernelNode(kernel, graph, NULL, 0, &kernel_of));
  OK(cuGraphAddMemsetNode(&fill, graph, kernel, 1, &fill_of, context));
  OK(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &copy_of, context));
  OK(cuGraphAddDependencies(graph, &fill, &copy, NULL, 1));
  OK(cuGraphAddHostNode(&end, graph, &copy, 1, &host_of));
  OK(cuGraphAddEmptyNode(&empty, graph, NULL, 0));
  OK(cuGraphDestroyNode(empty));
  EXPECT(cuGraphAddDependencies(graph, &fill, &copy, NULL, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphNodeGetType(fill, &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_MEMSET);
  kernel_of.blockDimX = 0;
  EXPECT(cuGraphAddKernelNode(&empty, graph, NULL, 0, &kernel_of), CUDA_ERROR_INVALID_VALUE);
  return graph;
}

static void check_nodes(CUfunction function) {
  unsigned out[2] = {0, 0}, elements = 64;
  int calls = 0;
  void* arguments[2] = {&memory, &elements};
  CUgraphNode kernel, other;
  CUgraphExec exec;
  CUgraphExecUpdateResultInfo info;
  CUgraph graph = build(function, out, &calls, 7, &kernel);
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(out[0] == 7 && calls == 1);
  CUDA_KERNEL_NODE_PARAMS kernel_of = {.func = function,
                                       .gridDimX = 4,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 32,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = arguments};
  OK(cuGraphExecKernelNodeSetParams(exec, kernel, &kernel_of));
  OK(cuGraphLaunch(exec, stream));
  CUgraph changed = build(function, out, &calls, 8, &other);
  OK(cuGraphExecUpdate(exec, changed, &info));
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(out[0] == 8 && calls == 3);
  OK(cuGraphDestroy(changed));
  OK(cuGraphCreate(&changed, 0));
  EXPECT(cuGraphExecUpdate(exec, changed, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  OK(cuGraphDestroy(changed));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

static void check_children_and_events(void) {
  CUgraph graph, inner;
  CUgraphExec exec;
  CUgraphNode child, record, wait;
  CUevent event;
  CUdeviceptr captured;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemAllocAsync(&captured, 4096, stream));
  OK(cuMemsetD32Async(captured, 5, 1, stream));
  OK(cuMemcpyDtoDAsync(memory, captured, 4, stream));
  OK(cuMemFreeAsync(captured, stream));
  OK(cuStreamEndCapture(stream, &inner));
  OK(cuGraphCreate(&graph, 0));
#ifdef PHANTORA_MODEL
  /* The vendor allows no memory nodes in children. */
  OK(cuGraphAddChildGraphNode(&child, graph, NULL, 0, inner));
#else
  OK(cuGraphDestroy(inner));
  OK(cuGraphCreate(&inner, 0));
  OK(cuGraphAddChildGraphNode(&child, graph, NULL, 0, inner));
#endif
  OK(cuGraphAddEventRecordNode(&record, graph, &child, 1, event));
  OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
  EXPECT(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphDestroy(inner));
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuEventQuery(event));
#ifdef PHANTORA_MODEL
  unsigned value = 0;
  OK(cuMemcpyDtoH(&value, memory, 4));
  CHECK(value == 5);
#endif
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuEventDestroy(event));
}

int main(void) {
  CUmodule module;
  CUfunction function;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&memory, 4096));
  OK(cuModuleLoadData(&module, kPtx));
  OK(cuModuleGetFunction(&function, module, "scale"));
  check_nodes(function);
  check_children_and_events();
  OK(cuMemFree(memory));
  OK(cuStreamDestroy(stream));
  return differences;
}
