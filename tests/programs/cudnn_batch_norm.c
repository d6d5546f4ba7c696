/* covers: cudnnCreateTensorDescriptor cudnnDestroyTensorDescriptor cudnnSetTensorNdDescriptor
   cudnnGetTensorNdDescriptor cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize
   cudnnGetBatchNormalizationBackwardExWorkspaceSize cudnnGetBatchNormalizationTrainingExReserveSpaceSize
   cudnnBatchNormalizationForwardTrainingEx cudnnBatchNormalizationBackwardEx
   cudnnBatchNormalizationForwardInference */
/* not for the vendor: operands overlap */
#include "program.h"
#include "shim/cudnn/cudnn_types.h"

typedef cudnnTensorDescriptor_t Tensor;
typedef cudnnActivationDescriptor_t Activation;

cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnCreateTensorDescriptor(Tensor*);
cudnnStatus_t cudnnDestroyTensorDescriptor(Tensor);
cudnnStatus_t cudnnSetTensorNdDescriptor(Tensor, cudnnDataType_t, int, const int*, const int*);
cudnnStatus_t cudnnGetTensorNdDescriptor(Tensor, int, cudnnDataType_t*, int*, int*, int*);
cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                       cudnnBatchNormOps_t, Tensor, Tensor, Tensor,
                                                                       Tensor, Activation, size_t*);
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                cudnnBatchNormOps_t, Tensor, Tensor, Tensor, Tensor,
                                                                Tensor, Tensor, Activation, size_t*);
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                   cudnnBatchNormOps_t, Activation, Tensor, size_t*);
cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t,
                                                       const void*, const void*, Tensor, const void*, Tensor,
                                                       const void*, Tensor, void*, Tensor, const void*, const void*,
                                                       double, void*, void*, double, void*, void*, Activation, void*,
                                                       size_t, void*, size_t);
cudnnStatus_t cudnnBatchNormalizationBackwardEx(cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*,
                                                const void*, const void*, const void*, Tensor, const void*, Tensor,
                                                const void*, Tensor, const void*, Tensor, void*, Tensor, void*, Tensor,
                                                const void*, const void*, void*, void*, double, const void*,
                                                const void*, Activation, void*, size_t, void*, size_t);
cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t, cudnnBatchNormMode_t, const void*, const void*,
                                                      Tensor, const void*, Tensor, void*, Tensor, const void*,
                                                      const void*, const void*, const void*, double);

#define OK(call) CHECK((call) == CUDNN_STATUS_SUCCESS)

static const cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
static const cudnnBatchNormOps_t kOps = CUDNN_BATCHNORM_OPS_BN;

static Tensor make_tensor(cudnnDataType_t type, int n, int c, int h, int w) {
  const int sizes[4] = {n, c, h, w}, strides[4] = {c * h * w, h * w, w, 1};
  Tensor tensor;
  OK(cudnnCreateTensorDescriptor(&tensor));
  OK(cudnnSetTensorNdDescriptor(tensor, type, 4, sizes, strides));
  return tensor;
}

static void check_descriptor(Tensor tensor) {
  cudnnDataType_t type;
  int rank = 0, sizes[8] = {0}, strides[8] = {0};
  OK(cudnnGetTensorNdDescriptor(tensor, 8, &type, &rank, sizes, strides));
  CHECK(type == CUDNN_DATA_HALF && rank == 4 && sizes[1] == 64 && strides[3] == 1);
  CHECK(cudnnSetTensorNdDescriptor(tensor, type, 9, sizes, strides) == CUDNN_STATUS_BAD_PARAM);
}

int main(void) {
  cudnnHandle_t handle;
  size_t forward_bytes = 0, backward_bytes = 0, reserve_bytes = 1;
  const float one = 1, zero = 0;
  void* data;
  OK(cudnnCreate(&handle));
  CHECK(cudaMalloc(&data, 1 << 20) == cudaSuccess);
  Tensor x = make_tensor(CUDNN_DATA_HALF, 8, 64, 16, 16), scale = make_tensor(CUDNN_DATA_FLOAT, 1, 64, 1, 1);
  check_descriptor(x);
  OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, kMode, kOps, x, NULL, x, scale, NULL,
                                                              &forward_bytes));
  OK(cudnnGetBatchNormalizationBackwardExWorkspaceSize(handle, kMode, kOps, x, NULL, x, NULL, x, scale, NULL,
                                                       &backward_bytes));
  OK(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, kMode, kOps, NULL, x, &reserve_bytes));
  CHECK(forward_bytes > 0 && backward_bytes > 0 && reserve_bytes == 0);
  OK(cudnnBatchNormalizationForwardTrainingEx(handle, kMode, kOps, &one, &zero, x, data, NULL, NULL, x, data, scale,
                                              data, data, 0.1, data, data, 1e-5, data, data, NULL, data, forward_bytes,
                                              NULL, 0));
  OK(cudnnBatchNormalizationBackwardEx(handle, kMode, kOps, &one, &zero, &one, &zero, x, data, NULL, NULL, x, data,
                                       NULL, NULL, x, data, scale, data, NULL, data, data, 1e-5, data, data, NULL, data,
                                       backward_bytes, NULL, 0));
  OK(cudnnBatchNormalizationForwardInference(handle, kMode, &one, &zero, x, data, x, data, scale, data, data, data,
                                             data, 1e-5));
  OK(cudnnDestroyTensorDescriptor(x));
  CHECK(cudnnDestroyTensorDescriptor(x) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnBatchNormalizationForwardInference(handle, kMode, &one, &zero, x, data, x, data, scale, data, data, data,
                                                data, 1e-5) == CUDNN_STATUS_BAD_PARAM);
  return 0;
}
