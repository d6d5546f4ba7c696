// Recognises what an operation graph computes: convolutions, and attention forward and backward.
//
// Attention comes as one operation of its own or, from older frontends, as the products and pointwise steps it is
// made of; two products are its forward pass, five its backward pass.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "shim/core/work.h"
#include "shim/cudnn/descriptor.h"

namespace ph::cudnn {

namespace {

using Sizes = std::vector<std::int64_t>;

const char* type_name(int data_type) noexcept {
  switch (data_type) {
    case CUDNN_DATA_FLOAT: return "f32";
    case CUDNN_DATA_DOUBLE: return "f64";
    case CUDNN_DATA_HALF: return "f16";
    case CUDNN_DATA_BFLOAT16: return "bf16";
    case CUDNN_DATA_FP8_E4M3: return "f8e4m3";
    case CUDNN_DATA_FP8_E5M2: return "f8e5m2";
    case CUDNN_DATA_INT8: return "i8";
    default: return "?";
  }
}

std::int64_t type_bytes(int data_type) noexcept {
  switch (data_type) {
    case CUDNN_DATA_DOUBLE: return 8;
    case CUDNN_DATA_HALF: case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_FP8_E4M3: case CUDNN_DATA_FP8_E5M2: case CUDNN_DATA_INT8: return 1;
    default: return 4;
  }
}

std::int64_t product_of(const Sizes& sizes, std::size_t from) {
  std::int64_t product = 1;
  for (std::size_t i = from; i < sizes.size(); ++i) product *= sizes[i];
  return product;
}

struct Tensor {
  Sizes sizes;
  int data_type = -1;

  std::int64_t bytes() const { return product_of(sizes, 0) * type_bytes(data_type); }

  bool has_rank(std::size_t rank) const noexcept { return sizes.size() == rank; }
};

Tensor tensor(const Descriptor& operation, int attribute) {
  const DescriptorRef descriptor = child(operation, attribute);
  if (!descriptor) return {};
  return {integers(*descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS),
          enumerator(*descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE)};
}

// A mask along the diagonal: an operation of its own, or a comparison of generated row and column numbers.
bool has_diagonal_mask(const std::vector<DescriptorRef>& operations) {
  return std::any_of(operations.begin(), operations.end(), [](const DescriptorRef& operation) {
    if (operation->type == CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR) return true;
    if (operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return false;
    const DescriptorRef step = child(*operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    return step && enumerator(*step, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_GEN_INDEX;
  });
}

struct Attention {
  Tensor q, k, v;  // batch, heads, sequence, head size
  bool causal = false;
  bool backward = false;
};

// Two products forward and five backward over the pairs of query and key that are not masked.
std::int64_t attention_flops(const Attention& of) {
  const std::int64_t pairs = of.q.sizes[0] * of.q.sizes[1] * of.q.sizes[2] * of.k.sizes[2] / (of.causal ? 2 : 1);
  const std::int64_t head_qk = of.q.sizes[3], head_v = of.v.sizes[3];
  return 2 * pairs * (of.backward ? 3 * head_qk + 2 * head_v : head_qk + head_v);
}

// Every operand once; backward reads the output and its gradient and writes three gradients more.
std::int64_t attention_bytes(const Attention& of) {
  const std::int64_t output_bytes = of.q.bytes() / of.q.sizes[3] * of.v.sizes[3];
  const std::int64_t inputs_bytes = of.q.bytes() + of.k.bytes() + of.v.bytes();
  return of.backward ? 2 * (inputs_bytes + output_bytes) : inputs_bytes + output_bytes;
}

bool write(const Attention& of, std::string& signature, std::int64_t& workspace_bytes) {
  if (!of.q.has_rank(4) || !of.k.has_rank(4) || !of.v.has_rank(4) || of.q.sizes[3] == 0) return false;
  const auto [batch, heads, rows, head] = std::tie(of.q.sizes[0], of.q.sizes[1], of.q.sizes[2], of.q.sizes[3]);
  signature = library_signature("cudnn", of.backward ? "attention_backward" : "attention_forward",
                                type_name(of.q.data_type),
                                {{"batch", batch},
                                 {"heads", heads},
                                 {"kv_heads", of.k.sizes[1]},
                                 {"seq_q", rows},
                                 {"seq_kv", of.k.sizes[2]},
                                 {"head_qk", head},
                                 {"head_v", of.v.sizes[3]},
                                 {"causal", of.causal},
                                 {"flops", attention_flops(of)},
                                 {"bytes", attention_bytes(of)}});
  // Assumed: the backward pass sums dQ in single precision and keeps one row sum per query.
  constexpr std::int64_t kFloatBytes = 4;
  workspace_bytes = of.backward ? batch * heads * rows * (head + 1) * kFloatBytes : 0;
  return true;
}

bool describe_attention(const Descriptor& operation, std::string& signature, std::int64_t& workspace_bytes) {
  const bool backward = operation.type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;
  Attention of;
  of.backward = backward;
  of.q = tensor(operation, backward ? CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC : CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC);
  of.k = tensor(operation, backward ? CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC : CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC);
  of.v = tensor(operation, backward ? CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC : CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC);
  const int subgraph = backward ? CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH : CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH;
  std::vector<DescriptorRef> steps = children(operation, subgraph);
  for (const DescriptorRef& step : std::vector(steps)) {
    const auto inner = children(*step, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    steps.insert(steps.end(), inner.begin(), inner.end());
  }
  of.causal = has_diagonal_mask(steps);
  return write(of, signature, workspace_bytes);
}

// Q is the first product's left side in both passes; its right side is the transposed K. V is taken to be as wide
// as K in the backward pass.
bool describe_products(const std::vector<DescriptorRef>& operations, std::string& signature,
                       std::int64_t& workspace_bytes) {
  std::vector<DescriptorRef> products;
  for (const DescriptorRef& operation : operations) {
    if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) products.push_back(operation);
  }
  if (products.size() != 2 && products.size() != 5) return false;
  Attention of;
  of.backward = products.size() == 5;
  of.q = tensor(*products[0], CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  of.k = tensor(*products[0], CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  if (!of.k.has_rank(4)) return false;
  std::swap(of.k.sizes[2], of.k.sizes[3]);
  of.v = of.k;
  if (!of.backward) of.v = tensor(*products[1], CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  of.causal = has_diagonal_mask(operations);
  return write(of, signature, workspace_bytes);
}

struct ConvolutionNames {
  cudnnBackendDescriptorType_t type;
  const char* operation;
  int description, x, w, y;
};

constexpr ConvolutionNames kConvolutions[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "convolution_forward",
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, "convolution_backward_data",
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, "convolution_backward_filter",
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

// Operations as of the equivalent matrix product; every operand is moved once.
bool describe_convolution(const Descriptor& operation, const ConvolutionNames& names, std::string& signature) {
  const Tensor x = tensor(operation, names.x), w = tensor(operation, names.w), y = tensor(operation, names.y);
  if (x.sizes.size() < 3 || w.sizes.size() != x.sizes.size() || y.sizes.size() != x.sizes.size()) return false;
  signature = library_signature("cudnn", names.operation, type_name(x.data_type),
                                {{"batch", x.sizes[0]},
                                 {"channels_in", x.sizes[1]},
                                 {"channels_out", y.sizes[1]},
                                 {"groups", w.sizes[1] > 0 ? x.sizes[1] / w.sizes[1] : 1},
                                 {"pixels_in", product_of(x.sizes, 2)},
                                 {"pixels_out", product_of(y.sizes, 2)},
                                 {"filter", product_of(w.sizes, 2)},
                                 {"flops", 2 * product_of(y.sizes, 0) * product_of(w.sizes, 1)},
                                 {"bytes", x.bytes() + w.bytes() + y.bytes()}});
  return true;
}

}  // namespace

DescriptorRef child(const Descriptor& descriptor, int attribute) noexcept {
  const auto found = descriptor.attributes.find(attribute);
  if (found == descriptor.attributes.end() || found->second.descriptors.empty()) return nullptr;
  return found->second.descriptors.front();
}

std::vector<DescriptorRef> children(const Descriptor& descriptor, int attribute) {
  const auto found = descriptor.attributes.find(attribute);
  return found == descriptor.attributes.end() ? std::vector<DescriptorRef>{} : found->second.descriptors;
}

std::vector<std::int64_t> integers(const Descriptor& descriptor, int attribute) {
  const auto found = descriptor.attributes.find(attribute);
  if (found == descriptor.attributes.end()) return {};
  std::vector<std::int64_t> values(found->second.bytes.size() / sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof values[0]);
  return values;
}

int enumerator(const Descriptor& descriptor, int attribute) noexcept {
  const auto found = descriptor.attributes.find(attribute);
  std::int32_t value = -1;
  if (found != descriptor.attributes.end() && found->second.bytes.size() >= sizeof value) {
    std::memcpy(&value, found->second.bytes.data(), sizeof value);
  }
  return value;
}

bool describe(const Descriptor& graph, std::string& signature, std::int64_t& workspace_bytes) {
  const std::vector<DescriptorRef> operations = children(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  workspace_bytes = 0;
  for (const DescriptorRef& operation : operations) {
    if (operation->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR ||
        operation->type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR) {
      return describe_attention(*operation, signature, workspace_bytes);
    }
    for (const ConvolutionNames& names : kConvolutions) {
      if (operation->type == names.type) return describe_convolution(*operation, names, signature);
    }
  }
  return describe_products(operations, signature, workspace_bytes);
}

}  // namespace ph::cudnn
