/* covers: cudnnCreateCTCLossDescriptor cudnnDestroyCTCLossDescriptor cudnnSetCTCLossDescriptorEx
   cudnnSetCTCLossDescriptor_v9 cudnnGetCTCLossWorkspaceSize cudnnGetCTCLossWorkspaceSize_v8 cudnnCTCLoss
   cudnnCTCLoss_v8 */
#include "program.h"
#include "shim/cudnn/cudnn_types.h"

typedef cudnnTensorDescriptor_t Tensor;
typedef cudnnCTCLossDescriptor_t Loss;

cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnCreateTensorDescriptor(Tensor*);
cudnnStatus_t cudnnSetTensorNdDescriptor(Tensor, cudnnDataType_t, int, const int*, const int*);
cudnnStatus_t cudnnCreateCTCLossDescriptor(Loss*);
cudnnStatus_t cudnnDestroyCTCLossDescriptor(Loss);
cudnnStatus_t cudnnSetCTCLossDescriptorEx(Loss, cudnnDataType_t, cudnnLossNormalizationMode_t, cudnnNanPropagation_t);
cudnnStatus_t cudnnSetCTCLossDescriptor_v9(Loss, cudnnDataType_t, cudnnLossNormalizationMode_t, cudnnCTCGradMode_t,
                                           int);
cudnnStatus_t cudnnGetCTCLossWorkspaceSize(cudnnHandle_t, Tensor, Tensor, const int*, const int*, const int*,
                                           cudnnCTCLossAlgo_t, Loss, size_t*);
cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(cudnnHandle_t, cudnnCTCLossAlgo_t, Loss, Tensor, Tensor, size_t*);
cudnnStatus_t cudnnCTCLoss(cudnnHandle_t, Tensor, const void*, const int*, const int*, const int*, void*, Tensor, void*,
                           cudnnCTCLossAlgo_t, Loss, void*, size_t);
cudnnStatus_t cudnnCTCLoss_v8(cudnnHandle_t, cudnnCTCLossAlgo_t, Loss, Tensor, const void*, const int*, const int*,
                              const int*, void*, Tensor, void*, size_t, void*);

#define OK(call) REQUIRE(call, CUDNN_STATUS_SUCCESS)

enum { kSteps = 12, kBatch = 2, kClasses = 8, kLabels = 7 };

static Tensor make_tensor(int steps) {
  const int sizes[3] = {steps, kBatch, kClasses}, strides[3] = {kBatch * kClasses, kClasses, 1};
  Tensor tensor;
  OK(cudnnCreateTensorDescriptor(&tensor));
  OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 3, sizes, strides));
  return tensor;
}

static void* on_device(const void* values, size_t bytes) {
  void* data;
  CHECK(cudaMalloc(&data, bytes) == cudaSuccess);
  CHECK(cudaMemcpy(data, values, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  return data;
}

int main(void) {
  const int labels[kLabels] = {1, 2, 3, 4, 5, 6, 7}, label_lengths[kBatch] = {4, 3}, lengths[kBatch] = {kSteps, kSteps};
  const int longer[kBatch] = {kSteps + 1, kSteps};
  const float zeros[kSteps * kBatch * kClasses] = {0};
  const cudnnCTCLossAlgo_t algorithm = CUDNN_CTC_LOSS_ALGO_DETERMINISTIC;
  cudnnHandle_t handle;
  size_t bytes = 0;
  Loss loss;
  OK(cudnnCreate(&handle));
  OK(cudnnCreateCTCLossDescriptor(&loss));
  OK(cudnnSetCTCLossDescriptorEx(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_PROPAGATE_NAN));
  Tensor x = make_tensor(kSteps), dx = make_tensor(kSteps), shorter = make_tensor(kSteps - 1);
  EXPECT(cudnnGetCTCLossWorkspaceSize(handle, x, shorter, labels, label_lengths, lengths, algorithm, loss, &bytes),
         CUDNN_STATUS_BAD_PARAM);
  /* An input that is longer than there are steps. */
  EXPECT(cudnnGetCTCLossWorkspaceSize(handle, x, dx, labels, label_lengths, longer, algorithm, loss, &bytes),
         CUDNN_STATUS_SUCCESS);
  OK(cudnnGetCTCLossWorkspaceSize(handle, x, dx, labels, label_lengths, lengths, algorithm, loss, &bytes));
  CHECK(bytes > 0);
  void *data = on_device(zeros, sizeof zeros), *gradients = on_device(zeros, sizeof zeros);
  void *costs = on_device(zeros, kBatch * sizeof(float)), *work;
  CHECK(cudaMalloc(&work, bytes) == cudaSuccess);
  EXPECT(cudnnCTCLoss(handle, x, data, labels, label_lengths, lengths, costs, dx, gradients, algorithm, loss, work, 0),
         CUDNN_STATUS_BAD_PARAM);
#ifdef PHANTORA_MODEL
  EXPECT(
      cudnnCTCLoss(handle, x, data, labels, label_lengths, longer, costs, dx, gradients, algorithm, loss, work, bytes),
      CUDNN_STATUS_BAD_PARAM); /* the vendor's might read past the end */
#endif
  OK(cudnnCTCLoss(handle, x, data, labels, label_lengths, lengths, costs, dx, gradients, algorithm, loss, work, bytes));

  OK(cudnnSetCTCLossDescriptor_v9(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX,
                                  CUDNN_CTC_SKIP_OOB_GRADIENTS, 4));
  OK(cudnnGetCTCLossWorkspaceSize_v8(handle, algorithm, loss, x, dx, &bytes));
  CHECK(cudaMalloc(&work, bytes) == cudaSuccess);
  const int *device_labels = on_device(labels, sizeof labels), *device_lengths = on_device(lengths, sizeof lengths);
  const int* device_label_lengths = on_device(label_lengths, sizeof label_lengths);
  OK(cudnnCTCLoss_v8(handle, algorithm, loss, x, data, device_labels, device_label_lengths, device_lengths, costs, dx,
                     gradients, bytes, work));
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  OK(cudnnDestroyCTCLossDescriptor(loss));
#ifdef PHANTORA_MODEL
  EXPECT(cudnnDestroyCTCLossDescriptor(loss), CUDNN_STATUS_BAD_PARAM);
#endif
  return differences;
}
