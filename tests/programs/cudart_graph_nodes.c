/* covers: cudaGraphCreate cudaGraphAddKernelNode cudaGraphAddMemcpyNode cudaGraphAddMemcpyNode1D cudaGraphAddMemsetNode
   cudaGraphAddHostNode cudaGraphAddEmptyNode cudaGraphAddEventRecordNode cudaGraphAddEventWaitNode
   cudaGraphAddChildGraphNode cudaGraphAddMemAllocNode cudaGraphAddMemFreeNode cudaGraphAddDependencies
   cudaGraphRemoveDependencies cudaGraphDestroyNode cudaGraphGetEdges cudaGraphGetRootNodes
   cudaGraphNodeGetDependentNodes cudaGraphNodeGetType cudaGraphKernelNodeSetParams cudaGraphMemcpyNodeSetParams
   cudaGraphMemsetNodeSetParams cudaGraphHostNodeSetParams cudaGraphExecKernelNodeSetParams
   cudaGraphExecMemcpyNodeSetParams cudaGraphExecMemcpyNodeSetParams1D cudaGraphExecMemsetNodeSetParams
   cudaGraphExecHostNodeSetParams cudaDeviceGraphMemTrim cudaDeviceGetGraphMemAttribute
   cudaDeviceSetGraphMemAttribute */
#include <cuda_runtime_api.h>

#include "program.h"
#include "registered.h"

#define OK(call) REQUIRE(call, cudaSuccess)
#define BAD(call)                        \
  do {                                   \
    EXPECT(call, cudaErrorInvalidValue); \
    cudaGetLastError();                  \
  } while (0)

static cudaStream_t stream;
static int *memory, *host;

static void count(void* data) { ++*(int*)data; }

static struct cudaMemsetParams fill_of(int* at, unsigned value) {
  return (struct cudaMemsetParams){.dst = at, .value = value, .elementSize = 4, .width = 1, .height = 1};
}

static struct cudaMemcpy3DParms copy_of(int* to, const int* from) {
  return (struct cudaMemcpy3DParms){
      .srcPtr = {(void*)from, 4, 4, 1}, .dstPtr = {to, 4, 4, 1}, .extent = {4, 1, 1}, .kind = cudaMemcpyDefault};
}

static void launch(cudaGraphExec_t exec) {
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
}

static enum cudaGraphNodeType type_of(cudaGraphNode_t node) {
  enum cudaGraphNodeType type;
  OK(cudaGraphNodeGetType(node, &type));
  return type;
}

/* Two fills beside each other, copies of both after them, and a function of the host at the end. */
static void check_diamond(void) {
  int calls = 0, others = 0;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t fills[2], copies[2], end, found[4], to[4];
  size_t number = 4;
  OK(cudaGraphCreate(&graph, 0));
  for (int i = 0; i < 2; ++i) {
    struct cudaMemsetParams fill = fill_of(memory + i, 11 + i);
    struct cudaMemcpy3DParms copy = copy_of(host + i, memory + i);
    OK(cudaGraphAddMemsetNode(&fills[i], graph, NULL, 0, &fill));
    OK(cudaGraphAddMemcpyNode(&copies[i], graph, &fills[i], 1, &copy));
  }
  struct cudaHostNodeParams function = {count, &calls}, other = {count, &others};
  OK(cudaGraphAddHostNode(&end, graph, copies, 2, &function));
  OK(cudaGraphGetRootNodes(graph, found, &number));
  const int first = found[0] == fills[0] ? 0 : 1; /* in no order that is promised */
  CHECK(number == 2 && found[first] == fills[0] && found[1 - first] == fills[1]);
  number = 4;
  OK(cudaGraphGetEdges(graph, found, to, NULL, &number));
  CHECK(number == 4);
  OK(cudaGraphNodeGetDependentNodes(fills[1], NULL, NULL, &number));
  CHECK(number == 1);
  CHECK(type_of(fills[0]) == cudaGraphNodeTypeMemset && type_of(copies[0]) == cudaGraphNodeTypeMemcpy);
  CHECK(type_of(end) == cudaGraphNodeTypeHost);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[0] == 11 && host[1] == 12 && calls == 1);

  /* The executable alone changes, then the graph alone. */
  struct cudaMemsetParams fill = fill_of(memory, 21);
  struct cudaMemcpy3DParms copy = copy_of(host + 2, memory + 1);
  OK(cudaGraphExecMemsetNodeSetParams(exec, fills[0], &fill));
  OK(cudaGraphExecMemcpyNodeSetParams(exec, copies[1], &copy));
  OK(cudaGraphExecHostNodeSetParams(exec, end, &other));
  host[1] = host[2] = 0;
  launch(exec);
  CHECK(host[0] == 21 && host[1] == 0 && host[2] == 12 && calls == 1 && others == 1);
  OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copies[1], host + 3, memory + 1, 4, cudaMemcpyDefault));
  launch(exec);
  CHECK(host[3] == 12);
  OK(cudaGraphExecDestroy(exec));
  fill.value = 31;
  OK(cudaGraphMemsetNodeSetParams(fills[0], &fill));
  OK(cudaGraphMemcpyNodeSetParams(copies[1], &copy));
  OK(cudaGraphHostNodeSetParams(end, &function));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[0] == 31 && calls == 2);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
}

static void check_kernels_and_events(void) {
  unsigned elements = 64;
  void* arguments[] = {&memory, &elements};
  struct cudaKernelNodeParams of = {.func = (void*)scale, {2, 1, 1}, {32, 1, 1}, 0, arguments, NULL};
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t kernel, record, wait, empty;
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddKernelNode(&kernel, graph, NULL, 0, &of));
  OK(cudaGraphAddEventRecordNode(&record, graph, &kernel, 1, event));
  OK(cudaGraphAddEmptyNode(&empty, graph, &record, 1));
  OK(cudaGraphAddEventWaitNode(&wait, graph, &empty, 1, event));
  CHECK(type_of(kernel) == cudaGraphNodeTypeKernel && type_of(empty) == cudaGraphNodeTypeEmpty);
  CHECK(type_of(record) == cudaGraphNodeTypeEventRecord && type_of(wait) == cudaGraphNodeTypeWaitEvent);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  OK(cudaEventQuery(event));
  of.gridDim.x = 3;
  OK(cudaGraphKernelNodeSetParams(kernel, &of));
  OK(cudaGraphExecKernelNodeSetParams(exec, kernel, &of));
  launch(exec);
  of.blockDim.x = 0;
  EXPECT(cudaGraphAddKernelNode(&kernel, graph, NULL, 0, &of), WRONG_SHAPE);
  of.func = (void*)&elements;
  EXPECT(cudaGraphAddKernelNode(&kernel, graph, NULL, 0, &of), UNKNOWN_KERNEL);
  cudaGetLastError();
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaEventDestroy(event));
}

/* A graph within another happens at its place, also a captured one. */
static void check_children(void) {
  cudaGraph_t graph, captured;
  cudaGraphExec_t exec;
  cudaGraphNode_t first, child, again, last;
  struct cudaMemsetParams fill = fill_of(memory, 5);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemcpyAsync(memory + 1, memory, 4, cudaMemcpyDeviceToDevice, stream));
  OK(cudaStreamEndCapture(stream, &captured));
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddMemsetNode(&first, graph, NULL, 0, &fill));
  OK(cudaGraphAddChildGraphNode(&child, graph, &first, 1, captured));
  OK(cudaGraphDestroy(captured));
  fill.value = 6;
  OK(cudaGraphAddMemsetNode(&again, graph, &child, 1, &fill));
  OK(cudaGraphAddMemcpyNode1D(&last, graph, &again, 1, host, memory, 8, cudaMemcpyDeviceToHost));
  CHECK(type_of(child) == cudaGraphNodeTypeGraph);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[0] == 6 && host[1] == 5);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
}

/* Order comes from the dependencies, not from when a node was added. */
static void check_dependencies(void) {
  cudaGraph_t graph, other;
  cudaGraphExec_t exec = NULL;
  cudaGraphNode_t nodes[3], strange, none;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphCreate(&other, 0));
  OK(cudaGraphAddEmptyNode(&strange, other, NULL, 0));
  OK(cudaGraphAddMemcpyNode1D(&nodes[2], graph, NULL, 0, host, memory, 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 2; ++i) {
    struct cudaMemsetParams fill = fill_of(memory, 41 + i);
    OK(cudaGraphAddMemsetNode(&nodes[i], graph, NULL, 0, &fill));
  }
  OK(cudaGraphAddDependencies(graph, nodes, nodes + 1, NULL, 2));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[0] == 42);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphRemoveDependencies(graph, nodes, nodes + 1, NULL, 1));
  OK(cudaGraphDestroyNode(nodes[1]));
  OK(cudaGraphAddDependencies(graph, nodes, nodes + 2, NULL, 1));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[0] == 41);
  OK(cudaGraphExecDestroy(exec));

  BAD(cudaGraphAddDependencies(graph, nodes, nodes + 2, NULL, 1)); /* is there */
  BAD(cudaGraphRemoveDependencies(graph, nodes + 2, nodes, NULL, 1)); /* is not */
  BAD(cudaGraphAddDependencies(graph, &strange, nodes, NULL, 1));
  BAD(cudaGraphAddEmptyNode(&none, graph, &strange, 1));
  BAD(cudaGraphCreate(&graph, 1));
  BAD(cudaGraphCreate(NULL, 0));
  EXPECT(cudaGraphAddDependencies(graph, nodes + 2, nodes, NULL, 1), cudaSuccess); /* round and round */
  BAD(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphDestroy(other));
}

/* Memory that a graph allocates has one address in all launches. */
static void check_memory(void) {
  struct cudaMemAllocNodeParams of = {
      .poolProps = {.allocType = cudaMemAllocationTypePinned, .location = {.type = cudaMemLocationTypeDevice}},
      .bytesize = 1 << 20};
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t allocation, fill_node, copy, end;
  uint64_t used = 1;
  void* captured = NULL;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddMemAllocNode(&allocation, graph, NULL, 0, &of));
  CHECK(of.dptr != NULL && type_of(allocation) == cudaGraphNodeTypeMemAlloc);
  struct cudaMemsetParams fill = fill_of(of.dptr, 51);
  OK(cudaGraphAddMemsetNode(&fill_node, graph, &allocation, 1, &fill));
  OK(cudaGraphAddMemcpyNode1D(&copy, graph, &fill_node, 1, host, of.dptr, 4, cudaMemcpyDeviceToHost));
  OK(cudaGraphAddMemFreeNode(&end, graph, &copy, 1, of.dptr));
  CHECK(type_of(end) == cudaGraphNodeTypeMemFree);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  launch(exec);
  CHECK(host[0] == 51);
  OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &used));
  CHECK(used >= 1 << 20);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));

  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMallocAsync(&captured, 4096, stream));
  OK(cudaMemsetAsync(captured, 1, 4, stream));
  OK(cudaMemcpyAsync(host, captured, 4, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(captured, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  size_t number = 0;
  OK(cudaGraphGetNodes(graph, NULL, &number));
  CHECK(number == 4);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[0] == 0x01010101);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaDeviceGraphMemTrim(0));
  used = 0;
  OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used));
  OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &used));
  CHECK(used == 0);
}

int main(void) {
  void** binary = register_kernel();
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMalloc((void**)&memory, 4096));
  OK(cudaMallocHost((void**)&host, 64));
  check_diamond();
  check_kernels_and_events();
  check_children();
  check_dependencies();
  check_memory();
  OK(cudaDeviceSynchronize());
  __cudaUnregisterFatBinary(binary);
  return differences;
}
