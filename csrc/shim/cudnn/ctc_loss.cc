// Connectionist temporal classification: the loss of sequences of labels whose alignment is not given, and its
// gradient in the same call.
#include <algorithm>
#include <limits>

#include "shim/calls/library.h"
#include "shim/cudnn/context.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::cudnn;

namespace {

constexpr int kMostLabels = 256;  // of a sequence: the limit that torch.nn.CTCLoss documents

struct Loss {
  bool set = false;
  std::int64_t labels = kMostLabels;  // of the longest sequence
};

constinit HandleTable<Loss> losses(HandleTag::CtcLoss);

cudnnStatus_t set_loss(cudnnCTCLossDescriptor_t handle, cudnnDataType_t type, cudnnLossNormalizationMode_t mode,
                       int labels) noexcept {
  Loss* loss = losses.get(handle);
  if (!loss || mode < CUDNN_LOSS_NORMALIZATION_NONE || mode > CUDNN_LOSS_NORMALIZATION_SOFTMAX || labels < 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (type != CUDNN_DATA_FLOAT || labels > kMostLabels) return CUDNN_STATUS_NOT_SUPPORTED;
  *loss = {true, labels};
  return CUDNN_STATUS_SUCCESS;
}

// What the calls have in common. Probabilities and gradients have the sizes steps, sequences and classes.
struct LossCall {
  cudnnHandle_t context;
  cudnnCTCLossDescriptor_t loss;
  cudnnTensorDescriptor_t probabilities;
  cudnnTensorDescriptor_t gradients;  // null: not wanted
  cudnnCTCLossAlgo_t algorithm;
};

cudnnStatus_t check(const LossCall& call, bool wants_gradients) noexcept {
  if (!contexts.get(call.context)) return CUDNN_STATUS_NOT_INITIALIZED;
  const Loss* loss = losses.get(call.loss);
  const Tensor *probabilities = tensors.get(call.probabilities), *gradients = tensors.get(call.gradients);
  if (!loss || !loss->set || !probabilities || !probabilities->has_rank(3)) return CUDNN_STATUS_BAD_PARAM;
  if (wants_gradients && (!gradients || gradients->sizes != probabilities->sizes)) return CUDNN_STATUS_BAD_PARAM;
  const bool known =
      call.algorithm == CUDNN_CTC_LOSS_ALGO_DETERMINISTIC || call.algorithm == CUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC;
  return known && probabilities->data_type == CUDNN_DATA_FLOAT ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

// The labels of the longest sequence, from lengths in host memory; -1: some are not possible. An input longer than there
// are steps is found when the loss is computed. Source: cuDNN 9.19 takes it when it is asked for the workspace.
std::int64_t longest(const Tensor& probabilities, const int* labels, const int* label_lengths, const int* input_lengths,
                     std::int64_t steps) noexcept {
  if (!labels || !label_lengths || !input_lengths) return -1;
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < probabilities.sizes[1]; ++i) {
    if (label_lengths[i] < 0 || label_lengths[i] > kMostLabels) return -1;
    if (input_lengths[i] < 0 || input_lengths[i] > steps) return -1;
    most = std::max<std::int64_t>(most, label_lengths[i]);
  }
  return most;
}

// Assumed: forward and backward variables of all labels and the blanks around them, at every step.
std::size_t workspace_bytes(const Tensor& probabilities, std::int64_t labels) noexcept {
  const std::int64_t tokens = probabilities.sizes[0] * probabilities.sizes[1];
  return 2 * sizeof(float) * static_cast<std::size_t>(tokens * (2 * labels + 1));
}

cudnnStatus_t record(const LossCall& call, const void* costs, const void* gradients, std::int64_t labels,
                     const void* workspace, std::size_t bytes) {
  const Tensor& probabilities = *tensors.get(call.probabilities);
  const std::size_t needed = workspace_bytes(probabilities, labels);
  if (!costs || !workspace || bytes < needed) return CUDNN_STATUS_BAD_PARAM;
  const StreamRef stream = resolve_stream(contexts.get(call.context)->stream);
  if (!stream.valid) return CUDNN_STATUS_EXECUTION_FAILED;
  const std::int64_t batch = probabilities.sizes[1], operands = gradients ? 2 : 1;
  emit_kernel(stream, payloads::CtcLoss{
                          .type = "f32",
                          .seqlen = probabilities.sizes[0],
                          .batch = batch,
                          .channels = probabilities.sizes[2],
                          .labels = labels,
                          .bytes = operands * probabilities.bytes(),
                      });
  forget_reached({costs, gradients, workspace});
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnCreateCTCLossDescriptor(cudnnCTCLossDescriptor_t* loss) noexcept {
  PH_CALL(cudnnCreateCTCLossDescriptor);
  if (!loss) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *loss = static_cast<cudnnCTCLossDescriptor_t>(losses.create());
  return *loss ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnDestroyCTCLossDescriptor(cudnnCTCLossDescriptor_t loss) noexcept {
  PH_CALL(cudnnDestroyCTCLossDescriptor);
  return losses.destroy(loss) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

PH_EXPORT cudnnStatus_t cudnnSetCTCLossDescriptorEx(cudnnCTCLossDescriptor_t loss, cudnnDataType_t type,
                                                    cudnnLossNormalizationMode_t mode, cudnnNanPropagation_t) noexcept {
  PH_CALL(cudnnSetCTCLossDescriptorEx);
  return set_loss(loss, type, mode, kMostLabels);
}

PH_EXPORT cudnnStatus_t cudnnSetCTCLossDescriptor_v9(cudnnCTCLossDescriptor_t loss, cudnnDataType_t type,
                                                     cudnnLossNormalizationMode_t mode, cudnnCTCGradMode_t,
                                                     int labels) noexcept {
  PH_CALL(cudnnSetCTCLossDescriptor_v9);
  return set_loss(loss, type, mode, labels);
}

PH_EXPORT cudnnStatus_t cudnnGetCTCLossWorkspaceSize(cudnnHandle_t context, const cudnnTensorDescriptor_t probabilities,
                                                     const cudnnTensorDescriptor_t gradients, const int* labels,
                                                     const int* label_lengths, const int* input_lengths,
                                                     cudnnCTCLossAlgo_t algorithm, cudnnCTCLossDescriptor_t loss,
                                                     size_t* bytes) noexcept {
  PH_CALL(cudnnGetCTCLossWorkspaceSize);
  const LossCall call = {context, loss, probabilities, gradients, algorithm};
  const cudnnStatus_t status = check(call, gradients != nullptr);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const Tensor& tensor = *tensors.get(probabilities);
  const std::int64_t most =
      longest(tensor, labels, label_lengths, input_lengths, std::numeric_limits<std::int64_t>::max());
  if (most < 0 || !bytes) return CUDNN_STATUS_BAD_PARAM;
  *bytes = workspace_bytes(tensor, most);
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(cudnnHandle_t context, cudnnCTCLossAlgo_t algorithm,
                                                        cudnnCTCLossDescriptor_t loss,
                                                        const cudnnTensorDescriptor_t probabilities,
                                                        const cudnnTensorDescriptor_t gradients,
                                                        size_t* bytes) noexcept {
  PH_CALL(cudnnGetCTCLossWorkspaceSize_v8);
  const LossCall call = {context, loss, probabilities, gradients, algorithm};
  const cudnnStatus_t status = check(call, gradients != nullptr);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!bytes) return CUDNN_STATUS_BAD_PARAM;
  *bytes = workspace_bytes(*tensors.get(probabilities), losses.get(loss)->labels);
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnCTCLoss(cudnnHandle_t context, const cudnnTensorDescriptor_t probabilities,
                                     const void* data, const int labels[], const int label_lengths[],
                                     const int input_lengths[], void* costs, const cudnnTensorDescriptor_t gradients,
                                     void* gradient_data, cudnnCTCLossAlgo_t algorithm, cudnnCTCLossDescriptor_t loss,
                                     void* workspace, size_t bytes) noexcept {
  PH_CALL(cudnnCTCLoss, HostCost::Library);
  const LossCall call = {context, loss, probabilities, gradients, algorithm};
  const cudnnStatus_t status = check(call, gradient_data != nullptr);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const Tensor& tensor = *tensors.get(probabilities);
  const std::int64_t most = longest(tensor, labels, label_lengths, input_lengths, tensor.sizes[0]);
  if (most < 0 || !data) return CUDNN_STATUS_BAD_PARAM;
  return record(call, costs, gradient_data, most, workspace, bytes);
}

PH_EXPORT cudnnStatus_t cudnnCTCLoss_v8(cudnnHandle_t context, cudnnCTCLossAlgo_t algorithm,
                                        cudnnCTCLossDescriptor_t loss, const cudnnTensorDescriptor_t probabilities,
                                        const void* data, const int labels[], const int label_lengths[],
                                        const int input_lengths[], void* costs, const cudnnTensorDescriptor_t gradients,
                                        void* gradient_data, size_t bytes, void* workspace) noexcept {
  PH_CALL(cudnnCTCLoss_v8, HostCost::Library);
  const LossCall call = {context, loss, probabilities, gradients, algorithm};
  const cudnnStatus_t status = check(call, gradient_data != nullptr);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!data || !labels || !label_lengths || !input_lengths) return CUDNN_STATUS_BAD_PARAM;
  return record(call, costs, gradient_data, losses.get(loss)->labels, workspace, bytes);
}

}  // extern "C"
