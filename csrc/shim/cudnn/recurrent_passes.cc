// Passes over a recurrent network. One is one kernel record, though the library launches several kernels a step.
#include <initializer_list>

#include "shim/calls/library.h"
#include "shim/cudnn/context.h"
#include "shim/cudnn/recurrent.h"
#include "shim/host_time/host_time.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::cudnn;

namespace {

// What all passes are called with.
struct Pass {
  const char* name;
  cudnnHandle_t context;
  cudnnRNNDescriptor_t network;
  cudnnRNNDataDescriptor_t x, y;
  size_t weight_bytes;
  const void* weights;
  size_t workspace_bytes;
  void* workspace;
  size_t reserve_bytes;  // only of training
  void* reserve;
  bool training = true;
  bool is_stepwise = true;  // goes through the sequences step by step
};

// A product and what follows it; the fill between them takes little. 140 cells of an LSTM took hosts 7.8 ms
// (benchmarks/real_gpu/measured), at the level of the built-in processors 35 us each.
constexpr std::int64_t kKernelsOfCell = 2;

// States of one kind at both ends of the sequences: those that are null are zeros, or not wanted.
struct States {
  cudnnTensorDescriptor_t descriptor = nullptr;
  std::initializer_list<const void*> pointers;
  std::initializer_list<const void*> written;
};

bool fits(const Network& network, const Sequences& x, const Sequences& y) noexcept {
  return network.data_type >= 0 && x.data_type == network.data_type && y.data_type == network.data_type &&
         x.width == network.input && y.width == network.directions * network.output && x.layout == y.layout &&
         x.length == y.length && x.batch == y.batch && x.tokens == y.tokens;
}

bool has_room(const Pass& pass, const Network& network, const Sequences& x) noexcept {
  const auto holds = [](const void* pointer, std::size_t bytes, std::int64_t needed) {
    return needed == 0 || (pointer && bytes >= static_cast<std::size_t>(needed));
  };
  return holds(pass.weights, pass.weight_bytes, weight_bytes(network)) &&
         holds(pass.workspace, pass.workspace_bytes, workspace_bytes(network, x)) &&
         (!pass.training || holds(pass.reserve, pass.reserve_bytes, reserve_bytes(network, x)));
}

bool fits(const Network& network, const Sequences& x, const States& states, std::int64_t width) {
  bool used = false;
  for (const void* pointer : states.pointers) used = used || pointer;
  for (const void* pointer : states.written) used = used || pointer;
  if (!used) return true;
  const Tensor* tensor = tensors.get(states.descriptor);
  if (!tensor || tensor->sizes.size() < 3 || tensor->data_type != network.data_type) return false;
  return tensor->sizes[0] == network.pseudo_layers() && tensor->sizes[1] == x.batch && tensor->sizes[2] == width &&
         product_of(tensor->sizes, 3) == 1;
}

cudnnStatus_t record(const Pass& pass, const States& hidden, const States& cells, const void* result) {
  const Context* context = contexts.get(pass.context);
  const Network* network = networks.get(pass.network);
  const Sequences *x = sequences.get(pass.x), *y = sequences.get(pass.y);
  if (!context) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!network || !x || !y || !fits(*network, *x, *y)) return CUDNN_STATUS_BAD_PARAM;
  if (!has_room(pass, *network, *x)) return CUDNN_STATUS_BAD_PARAM;
  const bool has_cells = network->cell == CUDNN_LSTM;
  if (!fits(*network, *x, hidden, network->output)) return CUDNN_STATUS_BAD_PARAM;
  if (has_cells && !fits(*network, *x, cells, network->hidden)) return CUDNN_STATUS_BAD_PARAM;
  if (network->persistent && !x->even) return CUDNN_STATUS_NOT_SUPPORTED;
  const StreamRef stream = resolve_stream(context->stream);
  if (!stream.valid) return CUDNN_STATUS_EXECUTION_FAILED;
  emit_kernel(stream, signature_of(*network, *x, pass.name));
  if (pass.is_stepwise && !network->persistent)
    charge_further_kernels(kKernelsOfCell * network->pseudo_layers() * x->length - 1);
  forget_reached({result, pass.workspace, pass.reserve});
  forget_reached(hidden.written);
  forget_reached(cells.written);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnRNNForward(cudnnHandle_t context, cudnnRNNDescriptor_t network, cudnnForwardMode_t mode,
                                        const int32_t*, cudnnRNNDataDescriptor_t x, const void* x_data,
                                        cudnnRNNDataDescriptor_t y, void* y_data, cudnnTensorDescriptor_t h,
                                        const void* hx, void* hy, cudnnTensorDescriptor_t c, const void* cx, void* cy,
                                        size_t weight_bytes, const void* weights, size_t workspace_bytes,
                                        void* workspace, size_t reserve_bytes, void* reserve) noexcept {
  PH_CALL(cudnnRNNForward, HostCost::Library);
  if (!x_data || !y_data || (mode != CUDNN_FWD_MODE_TRAINING && mode != CUDNN_FWD_MODE_INFERENCE)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const Pass pass = {"forward", context,       network, x,
                     y,         weight_bytes,  weights, workspace_bytes,
                     workspace, reserve_bytes, reserve, mode == CUDNN_FWD_MODE_TRAINING};
  return record(pass, {h, {hx}, {hy}}, {c, {cx}, {cy}}, y_data);
}

PH_EXPORT cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t context, cudnnRNNDescriptor_t network, const int32_t*,
                                                cudnnRNNDataDescriptor_t y, const void* y_data, const void* dy,
                                                cudnnRNNDataDescriptor_t x, void* dx, cudnnTensorDescriptor_t h,
                                                const void* hx, const void* dhy, void* dhx, cudnnTensorDescriptor_t c,
                                                const void* cx, const void* dcy, void* dcx, size_t weight_bytes,
                                                const void* weights, size_t workspace_bytes, void* workspace,
                                                size_t reserve_bytes, void* reserve) noexcept {
  PH_CALL(cudnnRNNBackwardData_v8, HostCost::Library);
  if (!y_data || !dy || !dx) return CUDNN_STATUS_BAD_PARAM;
  const Pass pass = {"backward_data", context,   network,       x,      y, weight_bytes, weights,
                     workspace_bytes, workspace, reserve_bytes, reserve};
  return record(pass, {h, {hx, dhy}, {dhx}}, {c, {cx, dcy}, {dcx}}, dx);
}

PH_EXPORT cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t context, cudnnRNNDescriptor_t network,
                                                   cudnnWgradMode_t mode, const int32_t*, cudnnRNNDataDescriptor_t x,
                                                   const void* x_data, cudnnTensorDescriptor_t h, const void* hx,
                                                   cudnnRNNDataDescriptor_t y, const void* y_data, size_t weight_bytes,
                                                   void* dweights, size_t workspace_bytes, void* workspace,
                                                   size_t reserve_bytes, void* reserve) noexcept {
  PH_CALL(cudnnRNNBackwardWeights_v8, HostCost::Library);
  if (!x_data || !y_data) return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_WGRAD_MODE_ADD) return CUDNN_STATUS_NOT_SUPPORTED;  // assumed
  const Pass pass = {"backward_weights", context,   network,       x,       y,    weight_bytes, dweights,
                     workspace_bytes,    workspace, reserve_bytes, reserve, true, false};
  return record(pass, {h, {hx}, {}}, {}, dweights);
}

}  // extern "C"
