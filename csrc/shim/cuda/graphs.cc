// Stream capture and graphs: the runtime's own objects under the driver's names.
#include <algorithm>

#include "shim/cuda/driver.h"
#include "shim/graph/graph.h"

using namespace ph;
using namespace ph::driver;

namespace {

bool is_mode(CUstreamCaptureMode mode) noexcept {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult tell_info(StreamRef stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                   const CUgraphNode** dependencies, std::size_t* count) noexcept {
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  if (stream.id == 0) PH_CHECK_CAPTURE(check_work(stream));
  const CaptureInfo info = capture_info(stream);
  *status = static_cast<CUstreamCaptureStatus>(info.status);
  if (id) *id = info.id;
  if (info.status != CaptureStatus::Active) return CUDA_SUCCESS;
  if (graph) *graph = static_cast<CUgraph>(info.graph);
  if (dependencies) *dependencies = reinterpret_cast<const CUgraphNode*>(info.dependencies->data());
  if (count) *count = info.dependencies->size();
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) noexcept {
  PH_CALL(cuStreamBeginCapture_v2, HostCost::Setup);
  PH_FIND_STREAM(stream, handle);
  if (!is_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
  return result_of(begin_capture(stream, static_cast<CaptureMode>(mode)));
}

PH_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) noexcept {
  PH_CALL(cuStreamEndCapture, HostCost::Setup);
  PH_FIND_STREAM(stream, handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  return result_of(end_capture(stream, reinterpret_cast<void**>(graph)));
}

PH_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) noexcept {
  PH_CALL(cuStreamIsCapturing);
  PH_FIND_STREAM(stream, handle);
  return tell_info(stream, status, nullptr, nullptr, nullptr, nullptr);
}

PH_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                             CUgraph* graph, const CUgraphNode** dependencies,
                                             const CUgraphEdgeData** edges, size_t* count) noexcept {
  PH_CALL(cuStreamGetCaptureInfo_v3);
  PH_FIND_STREAM(stream, handle);
  if (edges) *edges = nullptr;  // all are plain ones
  return tell_info(stream, status, id, graph, dependencies, count);
}

PH_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) noexcept {
  PH_CALL(cuThreadExchangeStreamCaptureMode);
  if (!mode || !is_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
  *mode = static_cast<CUstreamCaptureMode>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return CUDA_SUCCESS;
}

// Flags say how memory nodes are freed and with what priority the graph runs: we have none of these.
PH_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) noexcept {
  PH_CALL(cuGraphInstantiateWithFlags, HostCost::Setup);
  constexpr unsigned long long kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (!exec || (flags & ~kFlags) != 0 || !find_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
  *exec = static_cast<CUgraphExec>(instantiate_graph(graph));
  return *exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;  // nodes wait for each other
}

PH_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) noexcept {
  PH_CALL(cuGraphLaunch, HostCost::Launch);
  PH_RESOLVE_STREAM(stream, handle);
  if (capture_info(stream).status != CaptureStatus::None) {
    return refused("cuGraphLaunch", "into a stream that is being captured");
  }
  return launch_graph(exec, stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) noexcept {
  PH_CALL(cuGraphGetNodes);
  const auto graph = find_graph(handle);
  if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t given = nodes ? std::min(*count, graph->nodes.size()) : graph->nodes.size();
  for (std::size_t i = 0; nodes && i < *count; ++i) {
    nodes[i] = i < given ? static_cast<CUgraphNode>(graph->nodes[i]) : nullptr;
  }
  *count = given;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuGraphDestroy(CUgraph graph) noexcept {
  PH_CALL(cuGraphDestroy, HostCost::Setup);
  return destroy_graph(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) noexcept {
  PH_CALL(cuGraphExecDestroy, HostCost::Setup);
  return destroy_graph_exec(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
