/* covers: cudnnCreate cudnnDestroy cudnnSetStream cudnnGetStream cudnnGetVersion cudnnGetProperty
   cudnnGetErrorString cudnnBackendCreateDescriptor cudnnBackendDestroyDescriptor cudnnBackendSetAttribute
   cudnnBackendGetAttribute cudnnBackendFinalize cudnnBackendExecute */
#include <string.h>

#include "program.h"
#include "shim/cudnn/cudnn_types.h"

cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnDestroy(cudnnHandle_t);
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t);
cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t*);
size_t cudnnGetVersion(void);
cudnnStatus_t cudnnGetProperty(libraryPropertyType, int*);
const char* cudnnGetErrorString(cudnnStatus_t);
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*);
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, const void*);
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, int64_t*, void*);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);

#define OK(call) CHECK((call) == CUDNN_STATUS_SUCCESS)

enum { CUDNN_BACKEND_TENSOR = 17, CUDNN_BACKEND_CONVOLUTION = 1, CUDNN_TYPE_DATA_TYPE = 1 };

static cudnnBackendDescriptor_t make(int type) {
  cudnnBackendDescriptor_t descriptor;
  OK(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)type, &descriptor));
  return descriptor;
}

static void set(cudnnBackendDescriptor_t of, int name, int type, int64_t count, const void* values) {
  OK(cudnnBackendSetAttribute(of, (cudnnBackendAttributeName_t)name, (cudnnBackendAttributeType_t)type, count,
                              values));
}

static void set_child(cudnnBackendDescriptor_t of, int name, cudnnBackendDescriptor_t child) {
  set(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &child);
}

static cudnnBackendDescriptor_t make_tensor(int64_t n, int64_t c, int64_t h, int64_t w) {
  const int64_t sizes[4] = {n, c, h, w};
  const int32_t type = CUDNN_DATA_HALF;
  cudnnBackendDescriptor_t tensor = make(CUDNN_BACKEND_TENSOR);
  set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
  OK(cudnnBackendFinalize(tensor));
  return tensor;
}

static cudnnBackendDescriptor_t make_graph(void) {
  cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  set_child(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, make_tensor(8, 3, 32, 32));
  set_child(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, make_tensor(16, 3, 3, 3));
  set_child(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, make_tensor(8, 16, 32, 32));
  OK(cudnnBackendFinalize(operation));
  cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  OK(cudnnBackendFinalize(graph));
  OK(cudnnBackendDestroyDescriptor(operation)); /* the graph keeps what it needs */
  return graph;
}

static cudnnBackendDescriptor_t make_plan(cudnnBackendDescriptor_t graph) {
  int64_t count = 0;
  cudnnBackendDescriptor_t heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_child(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  OK(cudnnBackendFinalize(heuristics));
  OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                              NULL));
  CHECK(count >= 1);
  cudnnBackendDescriptor_t configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                              &configuration));
  cudnnBackendDescriptor_t plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  OK(cudnnBackendFinalize(plan));
  int64_t workspace = -1;
  OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                              &workspace));
  CHECK(workspace >= 0);
  return plan;
}

int main(void) {
  cudnnHandle_t handle;
  cudaStream_t stream, seen;
  int major = 0;
  OK(cudnnCreate(&handle));
  OK(cudnnGetProperty(MAJOR_VERSION, &major));
  CHECK(cudnnGetVersion() / 10000 == (size_t)major);
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  OK(cudnnSetStream(handle, stream));
  OK(cudnnGetStream(handle, &seen));
  CHECK(seen == stream);
  cudnnBackendDescriptor_t plan = make_plan(make_graph());
  cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  CHECK(cudnnBackendExecute(handle, plan, pack) == CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  OK(cudnnBackendFinalize(pack));
  OK(cudnnBackendExecute(handle, plan, pack));
  CHECK(strcmp(cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM), "CUDNN_STATUS_BAD_PARAM") == 0);
  OK(cudnnDestroy(handle));
  CHECK(cudnnBackendExecute(handle, plan, pack) == CUDNN_STATUS_NOT_INITIALIZED);
  return 0;
}
