// Convolutions in an operation graph, alone or fused with what follows.
#include "shim/cudnn/descriptor.h"
#include "shim/cudnn/graph.h"
#include "shim/launch/work.h"

namespace ph::cudnn {

namespace {

struct ConvolutionNames {
  cudnnBackendDescriptorType_t type;
  const char* operation;
  int description, x, w, y;
};

constexpr ConvolutionNames kConvolutions[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "convolution_forward",
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, "convolution_dgrad",
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, "convolution_wgrad",
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

struct Convolution {
  const ConvolutionNames* names = nullptr;
  const Descriptor* operation = nullptr;
  Tensor x, w, y;
};

Convolution find_convolution(const Operations& operations) {
  for (const DescriptorRef& operation : operations) {
    for (const ConvolutionNames& names : kConvolutions) {
      if (operation->type != names.type) continue;
      Convolution found{&names, operation.get(), tensor(*operation, names.x), tensor(*operation, names.w),
                        tensor(*operation, names.y)};
      const std::size_t rank = found.x.sizes.size();
      if (rank >= 3 && found.w.has_rank(rank) && found.y.has_rank(rank) && found.w.sizes[1] > 0) return found;
    }
  }
  return {};
}

bool takes_tf32(const Convolution& of, int engine) noexcept {
  return of.x.data_type == CUDNN_DATA_FLOAT && engine == 0;
}

bool on_tensor_cores(const Convolution& of, int engine) noexcept {
  if (of.x.data_type == CUDNN_DATA_FLOAT) return takes_tf32(of, engine);
  return of.x.data_type != CUDNN_DATA_DOUBLE;
}

const char* compute_type(const Convolution& of, int engine) noexcept {
  if (of.x.data_type == CUDNN_DATA_DOUBLE) return "f64";
  return takes_tf32(of, engine) ? "tf32" : "f32";
}

// Assumed: tensor-core kernels want channels last, and convert other operands in the workspace.
std::int64_t workspace_of(const Convolution& of, int engine) {
  if (!on_tensor_cores(of, engine)) return 0;
  std::int64_t bytes = 0;
  for (const Tensor* tensor : {&of.x, &of.w, &of.y}) {
    if (std::string_view(tensor->layout()) != "channels_last") bytes += tensor->bytes();
  }
  return bytes;
}

}  // namespace

int engine_count(const Descriptor& graph) {
  const Convolution found = find_convolution(children(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS));
  return found.names && found.x.data_type == CUDNN_DATA_FLOAT ? 2 : 1;
}

bool uses_tensor_cores(const Descriptor& graph, int engine) {
  const Convolution found = find_convolution(children(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS));
  return found.names && on_tensor_cores(found, engine);
}

// Operations are counted as of the equivalent matrix product.
bool describe_convolution(const Operations& operations, int engine, std::int64_t bytes, GraphWork& work) {
  const Convolution found = find_convolution(operations);
  if (!found.names) return false;
  const Tensor &x = found.x, &w = found.w, &y = found.y;
  payloads::Convolution told{
      .operation = found.names->operation,
      .type = type_name(x.data_type),
      .groups = x.sizes[1] / w.sizes[1],
      .flops = 2 * y.elements() * product_of(w.sizes, 1),
      .bytes = bytes,
      .compute = compute_type(found, engine),
      .layout = x.layout(),
      .x = x.sizes,
      .w = w.sizes,
      .y = y.sizes,
  };
  if (const DescriptorRef description = child(*found.operation, found.names->description)) {
    told.padding = integers(*description, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    told.stride = integers(*description, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    told.dilation = integers(*description, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  }
  work.signature = payload_text(told);
  work.workspace_bytes = workspace_of(found, engine);
  return true;
}

}  // namespace ph::cudnn
