#include "shim/cudnn/graph.h"

#include <algorithm>
#include <map>

#include "shim/cudnn/descriptor.h"
#include "shim/launch/work.h"

namespace ph::cudnn {

namespace {

// Attributes that hold what an operation writes.
constexpr int kWritten[] = {
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
    CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
    CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC,
    CUDNN_ATTR_OPERATION_MATMUL_CDESC,
    CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC,
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC,
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC,
    CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC,
    CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
    CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
    CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
    CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
    CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
    CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
    CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC,
    CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
    CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
    CUDNN_ATTR_OPERATION_RNG_YDESC,
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC,
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC,
    CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_SDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_AMAX_ODESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC,
    CUDNN_ATTR_OPERATION_SOFTMAX_YDESC,
    CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC,
    CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC,
    CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC,
};

// The operations of a graph and of the graphs inside them: unified attention holds what is done to its scores.
Operations all_operations(const Descriptor& graph) {
  Operations found = children(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const int attribute : {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SOFTMAX_DESC, CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH}) {
      const DescriptorRef operation = found[i];
      const auto& inner = children(*operation, attribute);
      found.insert(found.end(), inner.begin(), inner.end());
    }
  }
  return found;
}

std::int64_t bytes_in_memory(const Operations& operations) {
  std::map<std::int64_t, std::int64_t> bytes_of;  // by unique id: operations share tensors
  for (const DescriptorRef& operation : operations) {
    for (const auto& [name, attribute] : operation->attributes) {
      for (const DescriptorRef& held : attribute.descriptors) {
        if (held->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
        const Tensor tensor = tensor_of(*held);
        if (tensor.in_memory) bytes_of[tensor.uid] = tensor.bytes();
      }
    }
  }
  std::int64_t sum = 0;
  for (const auto& [uid, bytes] : bytes_of) sum += bytes;
  return sum;
}

std::vector<Output> written_by(const Operations& operations) {
  std::vector<Output> outputs;
  for (const DescriptorRef& operation : operations) {
    for (const int attribute : kWritten) {
      const Tensor written = tensor(*operation, attribute);
      if (written.in_memory) outputs.push_back({written.uid, written.span_bytes()});
    }
  }
  return outputs;
}

std::int64_t product_flops(const Operations& operations) {
  std::int64_t flops = 0;
  for (const DescriptorRef& operation : operations) {
    if (operation->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const Tensor left = tensor(*operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const Tensor result = tensor(*operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    if (!left.sizes.empty()) flops += 2 * result.elements() * left.sizes.back();
  }
  return flops;
}

// The type of the first tensor in memory: operations list their main operand first or all have its type.
const char* main_type(const Operations& operations) {
  for (const DescriptorRef& operation : operations) {
    for (const auto& [name, attribute] : operation->attributes) {
      for (const DescriptorRef& held : attribute.descriptors) {
        if (held->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
        const Tensor tensor = tensor_of(*held);
        if (tensor.in_memory) return type_name(tensor.data_type);
      }
    }
  }
  return "?";
}

}  // namespace

bool describe(const Descriptor& graph, int engine, GraphWork& work) {
  const Operations operations = all_operations(graph);
  if (operations.empty()) return false;
  const std::int64_t bytes = bytes_in_memory(operations);
  work = {.signature = {}, .ragged = {}, .workspace_bytes = 0, .outputs = written_by(operations)};
  if (describe_convolution(operations, engine, bytes, work) || describe_attention(operations, bytes, work)) return true;
  work.signature = payload_text(payloads::OperationGraph{
      .type = main_type(operations),
      .operations = static_cast<std::int64_t>(operations.size()),
      .flops = product_flops(operations),
      .bytes = bytes,
  });
  return true;
}

}  // namespace ph::cudnn
