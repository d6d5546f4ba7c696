// Descriptors of recurrent networks and of their sequences, and what PyTorch asks of them before it runs one.
#include <algorithm>

#include "shim/calls/library.h"
#include "shim/cudnn/context.h"
#include "shim/cudnn/recurrent.h"

using namespace ph;
using namespace ph::cudnn;

namespace {

bool is_floating(cudnnDataType_t type) noexcept {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
         type == CUDNN_DATA_BFLOAT16;
}

// Arithmetic is as wide as the data, or wider for 16 bits.
bool is_precise(cudnnDataType_t type, cudnnDataType_t arithmetic) noexcept {
  const bool narrow = type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
  return arithmetic == type || (narrow && arithmetic == CUDNN_DATA_FLOAT);
}

template <class Enumerator>
bool is_within(Enumerator value, Enumerator last) noexcept {
  return static_cast<int>(value) >= 0 && value <= last;
}

cudnnStatus_t unsupported_network(const char* detail) noexcept {
  return static_cast<cudnnStatus_t>(library::unsupported("cudnnSetRNNDescriptor_v8", detail));
}

// A tensor of three dimensions; of a parameter that the network does not have, with sizes of zero and no address.
// Nothing is asked where there is no descriptor.
bool describe(const Network& network, const Parameter& parameter, const void* weights, cudnnTensorDescriptor_t handle,
              void** address) {
  if (address) {
    const auto* at = static_cast<const char*>(weights) + parameter.offset_bytes;
    *address = parameter.rows > 0 ? const_cast<char*>(at) : nullptr;
  }
  if (!handle) return true;
  Tensor* tensor = tensors.get(handle);
  if (!tensor) return false;
  const std::int64_t rows = parameter.rows, columns = parameter.columns;
  *tensor = {network.data_type, Sizes{rows > 0, rows, columns}, Sizes{rows * columns, columns, 1}, -1, true};
  return true;
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* network) noexcept {
  PH_CALL(cudnnCreateRNNDescriptor);
  if (!network) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *network = static_cast<cudnnRNNDescriptor_t>(networks.create());
  return *network ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t network) noexcept {
  PH_CALL(cudnnDestroyRNNDescriptor);
  return networks.destroy(network) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

PH_EXPORT cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t handle, cudnnRNNAlgo_t algorithm,
                                                 cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
                                                 cudnnDirectionMode_t direction, cudnnRNNInputMode_t input_mode,
                                                 cudnnDataType_t type, cudnnDataType_t arithmetic, cudnnMathType_t math,
                                                 int32_t input, int32_t hidden, int32_t projection, int32_t layers,
                                                 cudnnDropoutDescriptor_t dropout_handle, uint32_t) noexcept {
  PH_CALL(cudnnSetRNNDescriptor_v8);
  Network* network = networks.get(handle);
  const Dropout* dropout = dropouts.get(dropout_handle);
  if (!network || (dropout_handle && !dropout)) return CUDNN_STATUS_BAD_PARAM;
  if (!is_within(algorithm, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H) || !is_within(cell, CUDNN_GRU) ||
      !is_within(bias, CUDNN_RNN_SINGLE_REC_BIAS) || !is_within(direction, CUDNN_BIDIRECTIONAL) ||
      !is_within(input_mode, CUDNN_SKIP_INPUT) || !is_within(math, CUDNN_FMA_MATH)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (input <= 0 || hidden <= 0 || layers <= 0 || projection < 0 || projection > hidden) return CUDNN_STATUS_BAD_PARAM;
  const std::int64_t output = projection > 0 ? projection : hidden;
  if (!is_floating(type) || !is_precise(type, arithmetic)) return CUDNN_STATUS_NOT_SUPPORTED;
  // Only LSTMs are projected, and only by the standard algorithm.
  if (output != hidden && (cell != CUDNN_LSTM || algorithm != CUDNN_RNN_ALGO_STANDARD)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (input_mode == CUDNN_SKIP_INPUT) return unsupported_network("with CUDNN_SKIP_INPUT");
  if (algorithm == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) {
    return unsupported_network("with CUDNN_RNN_ALGO_PERSIST_DYNAMIC");
  }
  *network = {.data_type = type,
              .cell = cell,
              .bias = bias,
              .layers = layers,
              .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
              .input = input,
              .hidden = hidden,
              .output = output,
              .persistent = algorithm != CUDNN_RNN_ALGO_STANDARD,
              .tensor_cores = math != CUDNN_FMA_MATH && type != CUDNN_DATA_DOUBLE,
              .drops = dropout && dropout->drops};
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* data) noexcept {
  PH_CALL(cudnnCreateRNNDataDescriptor);
  if (!data) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *data = static_cast<cudnnRNNDataDescriptor_t>(sequences.create());
  return *data ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data) noexcept {
  PH_CALL(cudnnDestroyRNNDataDescriptor);
  return sequences.destroy(data) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

PH_EXPORT cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t handle, cudnnDataType_t type,
                                                  cudnnRNNDataLayout_t layout, int length, int batch, int width,
                                                  const int lengths[], void*) noexcept {
  PH_CALL(cudnnSetRNNDataDescriptor);
  Sequences* data = sequences.get(handle);
  if (!data || !lengths || length <= 0 || batch <= 0 || width <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (!is_within(layout, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED)) return CUDNN_STATUS_BAD_PARAM;
  if (!is_floating(type)) return CUDNN_STATUS_NOT_SUPPORTED;
  std::int64_t tokens = 0;
  for (int i = 0; i < batch; ++i) {
    if (lengths[i] < 0 || lengths[i] > length) return CUDNN_STATUS_BAD_PARAM;
    tokens += lengths[i];
  }
  const bool even = std::all_of(lengths, lengths + batch, [lengths](int one) { return one == lengths[0]; });
  *data = {type, layout, length, batch, width, tokens, even};
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t context, cudnnRNNDescriptor_t handle,
                                                   size_t* bytes) noexcept {
  PH_CALL(cudnnGetRNNWeightSpaceSize);
  if (!contexts.get(context)) return CUDNN_STATUS_NOT_INITIALIZED;
  const Network* network = networks.get(handle);
  if (!network || network->data_type < 0 || !bytes) return CUDNN_STATUS_BAD_PARAM;
  *bytes = static_cast<std::size_t>(weight_bytes(*network));
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t context, cudnnRNNDescriptor_t handle,
                                                  cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x_handle,
                                                  size_t* workspace, size_t* reserve) noexcept {
  PH_CALL(cudnnGetRNNTempSpaceSizes);
  if (!contexts.get(context)) return CUDNN_STATUS_NOT_INITIALIZED;
  const Network* network = networks.get(handle);
  const Sequences* x = sequences.get(x_handle);
  if (!network || network->data_type < 0 || !x || x->data_type < 0) return CUDNN_STATUS_BAD_PARAM;
  if (!is_within(mode, CUDNN_FWD_MODE_TRAINING)) return CUDNN_STATUS_BAD_PARAM;
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  if (workspace) *workspace = static_cast<std::size_t>(workspace_bytes(*network, *x));
  if (reserve) *reserve = training ? static_cast<std::size_t>(reserve_bytes(*network, *x)) : 0;
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t context, cudnnRNNDescriptor_t handle,
                                                int32_t pseudo_layer, size_t bytes, const void* weights, int32_t linear,
                                                cudnnTensorDescriptor_t matrix, void** matrix_address,
                                                cudnnTensorDescriptor_t bias, void** bias_address) noexcept {
  PH_CALL(cudnnGetRNNWeightParams);
  if (!contexts.get(context)) return CUDNN_STATUS_NOT_INITIALIZED;
  const Network* network = networks.get(handle);
  if (!network || network->data_type < 0) return CUDNN_STATUS_BAD_PARAM;
  if (pseudo_layer < 0 || pseudo_layer >= network->pseudo_layers()) return CUDNN_STATUS_BAD_PARAM;
  if (!has_linear(*network, linear) || bytes < static_cast<std::size_t>(weight_bytes(*network))) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const bool described =
      describe(*network, matrix_of(*network, pseudo_layer, linear), weights, matrix, matrix_address) &&
      describe(*network, bias_of(*network, pseudo_layer, linear), weights, bias, bias_address);
  return described ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

}  // extern "C"
