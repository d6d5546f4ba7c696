// What an operation graph does: the signature of its record, the memory it writes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/payloads.h"
#include "shim/cudnn/tensor.h"

namespace ph::cudnn {

struct Descriptor;
using DescriptorRef = std::shared_ptr<Descriptor>;
using Operations = std::vector<DescriptorRef>;

struct Output {
  std::int64_t uid;
  std::int64_t bytes;
};

// Attention of sequences of unequal length. How many rows they have in all, only Q's memory tells.
struct RaggedAttention {
  payloads::Attention attention;
  std::int64_t q_uid = -1;
  std::int64_t row_bytes = 0;  // of Q, all heads
};

struct GraphWork {
  std::string signature;
  std::optional<RaggedAttention> ragged;
  std::int64_t workspace_bytes = 0;
  std::vector<Output> outputs;
};

// Engines that can run a graph: two for a convolution in single precision, of which the first, preferred one uses
// TF32 (PyTorch drops it where TF32 is not allowed), else one.
int engine_count(const Descriptor& graph);
bool uses_tensor_cores(const Descriptor& graph, int engine);

// False: the graph holds no operation. One that is not recognised is a `graph` of so many operations and bytes.
bool describe(const Descriptor& graph, int engine, GraphWork& work);

// Recognisers: false if the operations are something else. `bytes` is what the graph's tensors in memory hold.
bool describe_attention(const Operations& operations, std::int64_t bytes, GraphWork& work);
bool describe_convolution(const Operations& operations, int engine, std::int64_t bytes, GraphWork& work);

}  // namespace ph::cudnn
