/* covers: cudnnCreate cudnnDestroy cudnnSetStream cudnnGetStream cudnnGetVersion cudnnGetCudartVersion cudnnGetProperty
   cudnnGetErrorString cudnnBackendCreateDescriptor cudnnBackendDestroyDescriptor cudnnBackendSetAttribute
   cudnnBackendGetAttribute cudnnBackendFinalize cudnnBackendExecute */
/* not for the vendor: graphs are described as far as our library reads them */
#include <string.h>

#include "cudnn_graph.h"

cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t);
cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t*);
size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
cudnnStatus_t cudnnGetProperty(libraryPropertyType, int*);
const char* cudnnGetErrorString(cudnnStatus_t);

static cudnnBackendDescriptor_t make_convolution(void) {
  const int64_t one[2] = {1, 1}, two[2] = {2, 2};
  cudnnBackendDescriptor_t description = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set(description, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, one);
  set(description, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, two);
  set(description, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, one);
  OK(cudnnBackendFinalize(description));
  cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  set_child(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, description);
  set_child(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, make_tensor(1, 8, 6, 32, 32, false));
  set_child(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, make_tensor(2, 16, 3, 3, 3, false));
  set_child(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, make_tensor(3, 8, 16, 16, 16, false));
  OK(cudnnBackendFinalize(operation));
  return operation;
}

/* A graph that is nothing we know: one step over two tensors. */
static cudnnBackendDescriptor_t make_unnamed(void) {
  cudnnBackendDescriptor_t step = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_child(step, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, make_tensor(1, 1, 1, 8, 64, false));
  set_child(step, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, make_tensor(2, 1, 1, 8, 64, false));
  OK(cudnnBackendFinalize(step));
  return step;
}

int main(void) {
  cudnnHandle_t handle;
  cudaStream_t stream, seen;
  int major = 0;
  OK(cudnnCreate(&handle));
  OK(cudnnGetProperty(MAJOR_VERSION, &major));
  CHECK(cudnnGetVersion() / 10000 == (size_t)major && cudnnGetCudartVersion() / 1000 == 13);
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  OK(cudnnSetStream(handle, stream));
  OK(cudnnGetStream(handle, &seen));
  CHECK(seen == stream);
  const cudnnBackendDescriptor_t convolution = make_convolution(), unnamed = make_unnamed();
  cudnnBackendDescriptor_t plan = make_plan(make_graph(1, &convolution));
  cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  CHECK(cudnnBackendExecute(handle, plan, pack) == CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  OK(cudnnBackendFinalize(pack));
  OK(cudnnBackendExecute(handle, plan, pack));
  OK(cudnnBackendExecute(handle, make_plan(make_graph(1, &unnamed)), pack));
  CHECK(strcmp(cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM), "CUDNN_STATUS_BAD_PARAM") == 0);
  OK(cudnnDestroy(handle));
  CHECK(cudnnBackendExecute(handle, plan, pack) == CUDNN_STATUS_NOT_INITIALIZED);
  return 0;
}
