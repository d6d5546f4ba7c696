// Batch normalisation, which PyTorch calls through cuDNN's older interface: tensor descriptors, and one function an
// operation.
#include <algorithm>
#include <initializer_list>

#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/cudnn/context.h"
#include "shim/cudnn/tensor.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::cudnn;

namespace ph::cudnn {
constinit HandleTable<Tensor> tensors(HandleTag::Tensor);
}

namespace {

constexpr int kMaxDimensions = 8;  // CUDNN_DIM_MAX

// Assumed: every multiprocessor leaves two partial sums in single precision per channel.
std::size_t workspace_bytes(const Tensor& x) {
  const auto sm_count = static_cast<std::size_t>(config().number("gpu.multiProcessorCount"));
  return x.sizes.size() < 2 ? 0 : 2 * sizeof(float) * static_cast<std::size_t>(x.sizes[1]) * sm_count;
}

// Records the operation on `x`; `operands` as large as x are read or written. Then nothing is known of what it
// wrote: tensors as large as x, and parameters as large as `scale`.
cudnnStatus_t record(cudnnHandle_t handle, const char* operation, cudnnTensorDescriptor_t x_handle, int operands,
                     cudnnTensorDescriptor_t scale_handle, std::initializer_list<const void*> written,
                     std::initializer_list<const void*> written_parameters) {
  const Context* context = contexts.get(handle);
  const Tensor* x = tensors.get(x_handle);
  const Tensor* scale = tensors.get(scale_handle);
  if (!context) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!x || !scale || x->sizes.size() < 2) return CUDNN_STATUS_BAD_PARAM;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUDNN_STATUS_EXECUTION_FAILED;
  emit_kernel(stream, payloads::BatchNorm{
                          .operation = operation,
                          .type = type_name(x->data_type),
                          .batch = x->sizes[0],
                          .channels = x->sizes[1],
                          .pixels = product_of(x->sizes, 2),
                          .bytes = operands * x->bytes(),
                          .layout = x->layout(),
                      });
  forget_reached(written);
  forget_reached(written_parameters);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) noexcept {
  PH_CALL(cudnnCreateTensorDescriptor);
  if (!tensor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *tensor = static_cast<cudnnTensorDescriptor_t>(tensors.create());
  return *tensor ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) noexcept {
  PH_CALL(cudnnDestroyTensorDescriptor);
  return tensors.destroy(tensor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

PH_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t handle, cudnnDataType_t type, int dimensions,
                                                   const int* sizes, const int* strides) noexcept {
  PH_CALL(cudnnSetTensorNdDescriptor);
  Tensor* tensor = tensors.get(handle);
  if (!tensor || !sizes || !strides || dimensions < 3 || dimensions > kMaxDimensions) return CUDNN_STATUS_BAD_PARAM;
  *tensor = {type, Sizes(sizes, sizes + dimensions), Sizes(strides, strides + dimensions), -1, true};
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t handle, int requested,
                                                   cudnnDataType_t* type, int* dimensions, int* sizes,
                                                   int* strides) noexcept {
  PH_CALL(cudnnGetTensorNdDescriptor);
  const Tensor* tensor = tensors.get(handle);
  if (!tensor || !type || !dimensions || !sizes || !strides) return CUDNN_STATUS_BAD_PARAM;
  const int rank = static_cast<int>(tensor->sizes.size());
  *type = static_cast<cudnnDataType_t>(tensor->data_type);
  *dimensions = rank;
  for (int i = 0; i < std::min(requested, rank); ++i) {
    sizes[i] = static_cast<int>(tensor->sizes[static_cast<std::size_t>(i)]);
    strides[i] = static_cast<int>(tensor->strides[static_cast<std::size_t>(i)]);
  }
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t x_handle,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* bytes) noexcept {
  PH_CALL(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize);
  const Tensor* x = tensors.get(x_handle);
  if (!x || !bytes) return CUDNN_STATUS_BAD_PARAM;
  *bytes = workspace_bytes(*x);
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t x_handle,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t,
    size_t* bytes) noexcept {
  PH_CALL(cudnnGetBatchNormalizationBackwardExWorkspaceSize);
  const Tensor* x = tensors.get(x_handle);
  if (!x || !bytes) return CUDNN_STATUS_BAD_PARAM;
  *bytes = workspace_bytes(*x);
  return CUDNN_STATUS_SUCCESS;
}

// Assumed: only a fused activation keeps anything for the backward pass.
PH_EXPORT cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                             cudnnBatchNormOps_t operations,
                                                                             const cudnnActivationDescriptor_t,
                                                                             const cudnnTensorDescriptor_t x_handle,
                                                                             size_t* bytes) noexcept {
  PH_CALL(cudnnGetBatchNormalizationTrainingExReserveSpaceSize);
  const Tensor* x = tensors.get(x_handle);
  if (!x || !bytes) return CUDNN_STATUS_BAD_PARAM;
  *bytes = operations == CUDNN_BATCHNORM_OPS_BN ? 0 : static_cast<std::size_t>(x->elements() + 7) / 8;
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t, void* y_data, const cudnnTensorDescriptor_t scale, const void*, const void*, double,
    void* running_mean, void* running_variance, double, void* saved_mean, void* saved_inverse,
    cudnnActivationDescriptor_t, void*, size_t, void*, size_t) noexcept {
  PH_CALL(cudnnBatchNormalizationForwardTrainingEx, HostCost::Library);
  return record(handle, "batch_norm_forward_training", x, 2, scale, {y_data},
                {running_mean, running_variance, saved_mean, saved_inverse});
}

PH_EXPORT cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t, void* dz_data,
    const cudnnTensorDescriptor_t, void* dx_data, const cudnnTensorDescriptor_t scale, const void*, const void*,
    void* dscale, void* dbias, double, const void*, const void*, cudnnActivationDescriptor_t, void*, size_t, void*,
    size_t) noexcept {
  PH_CALL(cudnnBatchNormalizationBackwardEx, HostCost::Library);
  return record(handle, "batch_norm_backward", x, 3, scale, {dz_data, dx_data}, {dscale, dbias});
}

PH_EXPORT cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t, const void*,
                                                                const void*, const cudnnTensorDescriptor_t x,
                                                                const void*, const cudnnTensorDescriptor_t,
                                                                void* y_data, const cudnnTensorDescriptor_t scale,
                                                                const void*, const void*, const void*, const void*,
                                                                double) noexcept {
  PH_CALL(cudnnBatchNormalizationForwardInference, HostCost::Library);
  return record(handle, "batch_norm_forward_inference", x, 2, scale, {y_data}, {});
}

}  // extern "C"
