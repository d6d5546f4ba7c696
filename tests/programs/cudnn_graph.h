/* What the programs of cuDNN's graph API share: prototypes, and the way from an operation to a plan. */
#pragma once

#include <stdbool.h>

#include "program.h"
#include "shim/cudnn/cudnn_types.h"

cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnDestroy(cudnnHandle_t);
cudnnStatus_t cudnnGraphVersionCheck(void);
void cudnnGetLastErrorString(char*, size_t);
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*);
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, const void*);
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, int64_t*, void*);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);

#define OK(call) CHECK((call) == CUDNN_STATUS_SUCCESS)

static cudnnBackendDescriptor_t make(int type) {
  cudnnBackendDescriptor_t descriptor;
  OK(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)type, &descriptor));
  return descriptor;
}

static void set(cudnnBackendDescriptor_t of, int name, int type, int64_t count, const void* values) {
  OK(cudnnBackendSetAttribute(of, (cudnnBackendAttributeName_t)name, (cudnnBackendAttributeType_t)type, count, values));
}

static void set_child(cudnnBackendDescriptor_t of, int name, cudnnBackendDescriptor_t child) {
  set(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &child);
}

/* A contiguous half-precision tensor. */
static cudnnBackendDescriptor_t make_tensor(int64_t uid, int64_t n, int64_t c, int64_t h, int64_t w, bool is_virtual) {
  const int64_t sizes[4] = {n, c, h, w}, strides[4] = {c * h * w, h * w, w, 1};
  const int32_t type = CUDNN_DATA_HALF;
  cudnnBackendDescriptor_t tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT32, 1, &type);
  set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
  set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  OK(cudnnBackendFinalize(tensor));
  return tensor;
}

static cudnnBackendDescriptor_t make_graph(int64_t count, const cudnnBackendDescriptor_t* operations) {
  cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
  OK(cudnnBackendFinalize(graph));
  for (int64_t i = 0; i < count; ++i) OK(cudnnBackendDestroyDescriptor(operations[i])); /* the graph keeps them */
  return graph;
}

static cudnnBackendDescriptor_t make_plan(cudnnBackendDescriptor_t graph) {
  int64_t count = 0, workspace = -1;
  cudnnBackendDescriptor_t heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_child(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  OK(cudnnBackendFinalize(heuristics));
  OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                              NULL));
  CHECK(count >= 1);
  cudnnBackendDescriptor_t configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                              &configuration));
  CHECK(count == 1); /* what was given, not what there is */
  cudnnBackendDescriptor_t plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  OK(cudnnBackendFinalize(plan));
  OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace));
  CHECK(workspace >= 0);
  return plan;
}
