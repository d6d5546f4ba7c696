#include "shim/cudnn/recurrent.h"

#include <algorithm>

#include "shim/cudnn/tensor.h"
#include "shim/launch/work.h"

namespace ph::cudnn {

namespace {

constexpr std::int64_t kProjection = 8;

const char* cell_name(cudnnRNNMode_t cell) noexcept {
  switch (cell) {
    case CUDNN_LSTM: return "lstm";
    case CUDNN_GRU: return "gru";
    case CUDNN_RNN_TANH: return "rnn_tanh";
    default: return "rnn_relu";
  }
}

std::int64_t matrix_elements(const Network& network, std::int64_t pseudo_layer) noexcept {
  const std::int64_t projection = network.is_projected() ? network.output * network.hidden : 0;
  return network.gates() * network.hidden * (network.input_of(pseudo_layer) + network.output) + projection;
}

// Of all pseudo-layers before this one.
std::int64_t matrix_elements_before(const Network& network, std::int64_t pseudo_layer) noexcept {
  std::int64_t elements = 0;
  for (std::int64_t earlier = 0; earlier < pseudo_layer; ++earlier) elements += matrix_elements(network, earlier);
  return elements;
}

// Biases of a pseudo-layer.
std::int64_t bias_count(const Network& network) noexcept {
  switch (network.bias) {
    case CUDNN_RNN_NO_BIAS: return 0;
    case CUDNN_RNN_DOUBLE_BIAS: return 2 * network.gates();
    default: return network.gates();
  }
}

}  // namespace

constinit HandleTable<Network> networks(HandleTag::Recurrent);
constinit HandleTable<Sequences> sequences(HandleTag::Sequences);

std::int64_t Network::gates() const noexcept {
  if (cell == CUDNN_LSTM) return 4;
  return cell == CUDNN_GRU ? 3 : 1;
}

std::int64_t Network::input_of(std::int64_t pseudo_layer) const noexcept {
  return pseudo_layer < directions ? input : directions * output;
}

std::int64_t Sequences::rows() const noexcept {
  return layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED ? tokens : length * batch;
}

std::int64_t Sequences::bytes() const noexcept { return rows() * width * type_bytes(data_type); }

bool has_linear(const Network& network, std::int64_t linear) noexcept {
  return linear >= 0 && (linear < 2 * network.gates() || (network.cell == CUDNN_LSTM && linear == kProjection));
}

// Assumed: the matrices of all pseudo-layers, without gaps, and then their biases. PyTorch relies on it that those of
// the gates of one pseudo-layer follow each other (get_parameters in aten/src/ATen/native/cudnn/RNN.cpp).
Parameter matrix_of(const Network& network, std::int64_t pseudo_layer, std::int64_t linear) noexcept {
  const std::int64_t gates = network.gates(), input = network.input_of(pseudo_layer);
  const std::int64_t of_input = std::min(linear, gates), of_hidden = std::clamp(linear - gates, std::int64_t{0}, gates);
  std::int64_t offset = matrix_elements_before(network, pseudo_layer);
  offset += network.hidden * (of_input * input + of_hidden * network.output);
  offset *= type_bytes(network.data_type);
  if (linear < gates) return {offset, network.hidden, input};
  if (linear < 2 * gates) return {offset, network.hidden, network.output};
  return network.is_projected() ? Parameter{offset, network.output, network.hidden} : Parameter{};
}

Parameter bias_of(const Network& network, std::int64_t pseudo_layer, std::int64_t linear) noexcept {
  const std::int64_t first = network.bias == CUDNN_RNN_SINGLE_REC_BIAS ? network.gates() : 0;
  const std::int64_t index = linear - first;
  if (index < 0 || index >= bias_count(network)) return {};
  std::int64_t offset = matrix_elements_before(network, network.pseudo_layers());
  offset += (pseudo_layer * bias_count(network) + index) * network.hidden;
  return {offset * type_bytes(network.data_type), network.hidden, 1};
}

std::int64_t weight_bytes(const Network& network) noexcept {
  const std::int64_t biases = network.pseudo_layers() * bias_count(network) * network.hidden;
  return (matrix_elements_before(network, network.pseudo_layers()) + biases) * type_bytes(network.data_type);
}

// Assumed: the gates of one layer at all steps, and a layer's input or its gradient.
std::int64_t workspace_bytes(const Network& network, const Sequences& x) noexcept {
  const std::int64_t width = std::max(network.input, network.directions * network.output);
  const std::int64_t gates = network.directions * network.gates() * network.hidden;
  return x.rows() * (gates + width) * type_bytes(network.data_type);
}

// Assumed: every layer keeps its gates, its cells' states and its output, and what of that was dropped.
std::int64_t reserve_bytes(const Network& network, const Sequences& x) noexcept {
  const std::int64_t kept = (network.gates() + (network.cell == CUDNN_LSTM ? 1 : 0)) * network.hidden;
  std::int64_t elements = network.pseudo_layers() * (kept + network.output);
  if (network.drops) elements += (network.layers - 1) * network.directions * network.output;
  return x.rows() * elements * type_bytes(network.data_type);
}

payloads::Recurrent signature_of(const Network& network, const Sequences& x, const char* pass) {
  return {
      .operation = std::string(cell_name(network.cell)) + '_' + pass,
      .type = type_name(network.data_type),
      .layers = network.layers,
      .directions = network.directions,
      .seqlen = x.length,
      .batch = x.batch,
      .tokens = x.tokens,
      .input = network.input,
      .hidden = network.hidden,
      .projection = network.is_projected() ? network.output : 0,
      .persistent = network.persistent,
      .tensor_cores = network.tensor_cores,
      .dropout = network.drops,
  };
}

}  // namespace ph::cudnn
