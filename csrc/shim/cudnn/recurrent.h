// A recurrent network as cuDNN's descriptors describe it: where its parameters lie, what a pass over it needs.
#pragma once

#include <cstdint>

#include "protocol/payloads.h"
#include "shim/core/handles.h"
#include "shim/cudnn/cudnn_types.h"

namespace ph::cudnn {

struct Network {
  int data_type = -1;  // -1: not set yet
  cudnnRNNMode_t cell = CUDNN_RNN_RELU;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_NO_BIAS;
  std::int64_t layers = 0;
  std::int64_t directions = 0;
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  std::int64_t output = 0;  // of one direction: less than `hidden` where it is projected
  bool persistent = false;  // one kernel keeps the recurrent weights through all steps
  bool tensor_cores = false;
  bool drops = false;

  std::int64_t gates() const noexcept;
  bool is_projected() const noexcept { return output != hidden; }
  // A layer and a direction are one pseudo-layer.
  std::int64_t pseudo_layers() const noexcept { return layers * directions; }
  std::int64_t input_of(std::int64_t pseudo_layer) const noexcept;
};

// A batch of sequences, as one operand holds them.
struct Sequences {
  int data_type = -1;  // -1: not set yet
  cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
  std::int64_t length = 0;  // of the longest
  std::int64_t batch = 0;
  std::int64_t width = 0;
  std::int64_t tokens = 0;  // of all of them
  bool even = true;         // all are equally long

  std::int64_t rows() const noexcept;  // in memory, padding included
  std::int64_t bytes() const noexcept;
};

// A matrix or a bias in the weight space. No rows: the network has none such.
struct Parameter {
  std::int64_t offset_bytes = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// `linear` numbers the matrices of a pseudo-layer: those of the input by gate, those of the hidden state, and 8, an
// LSTM's projection.
Parameter matrix_of(const Network& network, std::int64_t pseudo_layer, std::int64_t linear) noexcept;
Parameter bias_of(const Network& network, std::int64_t pseudo_layer, std::int64_t linear) noexcept;
bool has_linear(const Network& network, std::int64_t linear) noexcept;

std::int64_t weight_bytes(const Network& network) noexcept;
std::int64_t workspace_bytes(const Network& network, const Sequences& x) noexcept;
std::int64_t reserve_bytes(const Network& network, const Sequences& x) noexcept;

// `pass`: "forward", "backward_data" or "backward_weights".
payloads::Recurrent signature_of(const Network& network, const Sequences& x, const char* pass);

extern HandleTable<Network> networks;
extern HandleTable<Sequences> sequences;

}  // namespace ph::cudnn
