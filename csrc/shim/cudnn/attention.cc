// Attention in an operation graph.
//
// It comes as one operation with the steps between its two products in a graph of their own ("unified": PyTorch's
// forward pass without dropout), or as the products and steps it is made of ("composite"): two products are its
// forward pass, five its backward pass.
#include <algorithm>

#include "shim/cudnn/descriptor.h"
#include "shim/cudnn/graph.h"
#include "shim/launch/work.h"

namespace ph::cudnn {

namespace {

struct Attention {
  Tensor q, k, v;  // batch, heads, rows, head size
  bool backward = false;
};

Tensor transposed(Tensor tensor) {
  if (!tensor.has_rank(4)) return {};
  std::swap(tensor.sizes[2], tensor.sizes[3]);
  return tensor;
}

bool find_unified(const Operations& operations, Attention& found) {
  for (const DescriptorRef& operation : operations) {
    if (operation->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) {
      found = {tensor(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC),
               tensor(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC),
               tensor(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC), false};
      return true;
    }
    if (operation->type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR) {
      found = {tensor(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC),
               tensor(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC),
               tensor(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC), true};
      return true;
    }
  }
  return false;
}

// The first product is Q times transposed K in both passes. V is the right side of the forward pass's second one;
// in the backward pass, transposed, of the only other one whose left side (the output's gradient) is in memory.
bool find_composite(const Operations& operations, Attention& found) {
  Operations products;
  std::copy_if(operations.begin(), operations.end(), std::back_inserter(products), [](const DescriptorRef& operation) {
    return operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  });
  if (products.size() != 2 && products.size() != 5) return false;
  found.backward = products.size() == 5;
  found.q = tensor(*products[0], CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  found.k = transposed(tensor(*products[0], CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  if (!found.backward) {
    found.v = tensor(*products[1], CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    return true;
  }
  const auto values = std::find_if(products.begin() + 1, products.end(), [](const DescriptorRef& product) {
    return tensor(*product, CUDNN_ATTR_OPERATION_MATMUL_ADESC).in_memory;
  });
  if (values == products.end()) return false;
  found.v = transposed(tensor(**values, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  return true;
}

int pointwise_mode(const Descriptor& operation) {
  if (operation.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return -1;
  const DescriptorRef step = child(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  return step ? enumerator(*step, CUDNN_ATTR_POINTWISE_MODE) : -1;
}

// A causal mask keeps the scores whose row is not before their column: an operation with that comparison, or a
// comparison of generated row and column numbers. Other comparisons belong to padding and windows.
bool is_causal(const Operations& operations) {
  return std::any_of(operations.begin(), operations.end(), [](const DescriptorRef& operation) {
    const int mode = operation->type == CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR
                         ? enumerator(*operation, CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE)
                         : pointwise_mode(*operation);
    return mode == CUDNN_POINTWISE_CMP_GE;
  });
}

bool has_dropout(const Operations& operations) {
  return std::any_of(operations.begin(), operations.end(), [](const DescriptorRef& operation) {
    return operation->type == CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR ||
           is_set(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_PROBABILITY);
  });
}

// A tensor in memory that is added to the scores: PyTorch's attention mask.
bool has_bias(const Operations& operations, std::int64_t keys) {
  return std::any_of(operations.begin(), operations.end(), [keys](const DescriptorRef& operation) {
    if (pointwise_mode(*operation) != CUDNN_POINTWISE_ADD) return false;
    const Tensor added = tensor(*operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    return added.in_memory && added.has_rank(4) && added.sizes[3] == keys;
  });
}

// Assumed: the backward pass sums dQ in single precision, keeps one row sum per query and, where query heads share
// a key head, their dK and dV before they are summed.
std::int64_t backward_workspace_bytes(const Attention& of) {
  constexpr std::int64_t kFloatBytes = 4;
  const std::int64_t heads = of.q.sizes[0] * of.q.sizes[1];
  std::int64_t bytes = heads * of.q.sizes[2] * (of.q.sizes[3] + 1) * kFloatBytes;
  if (of.k.sizes[1] != of.q.sizes[1]) {
    bytes += heads * of.k.sizes[2] * (of.k.sizes[3] + of.v.sizes[3]) * type_bytes(of.q.data_type);
  }
  return bytes;
}

}  // namespace

bool describe_attention(const Operations& operations, std::int64_t bytes, GraphWork& work) {
  Attention found;
  if (!find_unified(operations, found) && !find_composite(operations, found)) return false;
  const auto& [q, k, v, backward] = found;
  if (!q.has_rank(4) || !k.has_rank(4) || !v.has_rank(4)) return false;
  const payloads::Attention attention{
      .operation = backward ? "attention_backward" : "attention_forward",
      .type = type_name(q.data_type),
      .batch = q.sizes[0],
      .heads = q.sizes[1],
      .kv_heads = k.sizes[1],
      .seqlen_q = q.sizes[2],
      .seqlen_k = k.sizes[2],
      .head_dim = q.sizes[3],
      .head_dim_v = v.sizes[3],
      .causal = is_causal(operations),
      .dropout = has_dropout(operations),
      .bias = has_bias(operations, k.sizes[2]),
      .bytes = bytes,
  };
  work.signature = payload_text(attention);
  if (q.ragged) work.ragged = {attention, q.uid, q.sizes[1] * q.sizes[3] * type_bytes(q.data_type)};
  work.workspace_bytes = backward ? backward_workspace_bytes(found) : 0;
  return true;
}

}  // namespace ph::cudnn
