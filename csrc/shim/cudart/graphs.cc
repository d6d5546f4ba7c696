// Stream capture and graphs.
#include "shim/cudart/cudart.h"

#include <algorithm>
#include <vector>

#include "shim/graph/graph.h"

using namespace ph;
using namespace ph::cudart;

namespace {

bool is_mode(cudaStreamCaptureMode mode) noexcept {
  return mode == cudaStreamCaptureModeGlobal || mode == cudaStreamCaptureModeThreadLocal ||
         mode == cudaStreamCaptureModeRelaxed;
}

// Good until the next call of this thread.
const cudaGraphEdgeData* plain_edges(std::size_t count) noexcept {
  thread_local std::vector<cudaGraphEdgeData> edges;
  edges.assign(count, {});
  return edges.data();
}

// Flags say how memory nodes are freed, where the graph is launched from and with what priority: we have none of these.
cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) noexcept {
  constexpr unsigned long long kFlags = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
                                        cudaGraphInstantiateFlagUseNodePriority;
  if (exec == nullptr || (flags & ~kFlags) != 0 || find_graph(graph) == nullptr) return returned(cudaErrorInvalidValue);
  *exec = static_cast<cudaGraphExec_t>(instantiate_graph(graph));
  return *exec != nullptr ? cudaSuccess : returned(cudaErrorInvalidValue);  // nodes wait for each other
}

}  // namespace

namespace ph::cudart {

void give_nodes(const GraphNodes& all, cudaGraphNode_t* nodes, std::size_t* count) noexcept {
  if (nodes != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < all.size() ? static_cast<cudaGraphNode_t>(all[i]) : nullptr;
    *count = std::min(*count, all.size());
  } else {
    *count = all.size();
  }
}

}  // namespace ph::cudart

extern "C" {

PH_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) noexcept {
  PH_CALL(cudaStreamBeginCapture, HostCost::Setup);
  PH_FIND_STREAM(stream, handle);
  if (!is_mode(mode)) return returned(cudaErrorInvalidValue);
  return returned(begin_capture(stream, static_cast<CaptureMode>(mode)));
}

PH_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) noexcept {
  PH_CALL(cudaStreamEndCapture, HostCost::Setup);
  PH_FIND_STREAM(stream, handle);
  if (graph == nullptr) return returned(cudaErrorInvalidValue);
  return returned(end_capture(stream, reinterpret_cast<void**>(graph)));
}

PH_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) noexcept {
  PH_CALL(cudaStreamIsCapturing);
  PH_FIND_STREAM(stream, handle);
  if (status == nullptr) return returned(cudaErrorInvalidValue);
  if (stream.id == 0) PH_CHECK_CAPTURE(check_work(stream));
  *status = static_cast<cudaStreamCaptureStatus>(capture_info(stream).status);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                               std::size_t* count) noexcept {
  PH_CALL(cudaStreamGetCaptureInfo);
  PH_FIND_STREAM(stream, handle);
  if (status == nullptr) return returned(cudaErrorInvalidValue);
  if (stream.id == 0) PH_CHECK_CAPTURE(check_work(stream));
  const CaptureInfo info = capture_info(stream);
  *status = static_cast<cudaStreamCaptureStatus>(info.status);
  if (id != nullptr) *id = info.id;
  if (info.status != CaptureStatus::Active) return cudaSuccess;
  if (dependencies != nullptr) {
    *dependencies = reinterpret_cast<const cudaGraphNode_t*>(info.dependencies->data());
  }
  if (edges != nullptr) *edges = plain_edges(info.dependencies->size());
  if (count != nullptr) *count = info.dependencies->size();
  if (graph != nullptr) *graph = static_cast<cudaGraph_t>(info.graph);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) noexcept {
  PH_CALL(cudaThreadExchangeStreamCaptureMode);
  if (mode == nullptr || !is_mode(*mode)) return returned(cudaErrorInvalidValue);
  *mode = static_cast<cudaStreamCaptureMode>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           unsigned long long flags) noexcept {
  PH_CALL(cudaGraphInstantiate, HostCost::Setup);
  return instantiate(exec, graph, flags);
}

PH_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                    unsigned long long flags) noexcept {
  PH_CALL(cudaGraphInstantiateWithFlags, HostCost::Setup);
  return instantiate(exec, graph, flags);
}

// A graph that was uploaded starts sooner the first time; that start is not modelled.
PH_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) noexcept {
  PH_CALL(cudaGraphUpload, HostCost::Setup);
  PH_RESOLVE_STREAM(stream, handle);
  return is_graph_exec(exec) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) noexcept {
  PH_CALL(cudaGraphLaunch, HostCost::Launch);
  PH_RESOLVE_STREAM(stream, handle);
  if (capture_info(stream).status != CaptureStatus::None) {
    return refused("cudaGraphLaunch", "into a stream that is being captured");
  }
  return launch_graph(exec, stream) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                          cudaGraphExecUpdateResultInfo* result) noexcept {
  PH_CALL(cudaGraphExecUpdate, HostCost::Setup);
  if (result == nullptr) return returned(cudaErrorInvalidValue);
  *result = {};
  switch (update_graph_exec(exec, graph)) {
    case GraphUpdate::Done: return cudaSuccess;
    case GraphUpdate::Different:
      result->result = cudaGraphExecUpdateErrorTopologyChanged;
      return returned(cudaErrorGraphExecUpdateFailure);
    case GraphUpdate::NoSuchHandle: break;
  }
  result->result = cudaGraphExecUpdateError;
  return returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) noexcept {
  PH_CALL(cudaGraphGetNodes);
  const auto graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  give_nodes(graph->nodes, nodes, count);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                           unsigned count, unsigned flags) noexcept {
  PH_CALL(cudaUserObjectCreate);
  if (object == nullptr || destroy == nullptr || count == 0 || flags != cudaUserObjectNoDestructorSync) {
    return returned(cudaErrorInvalidValue);
  }
  *object = static_cast<cudaUserObject_t>(create_user_object(pointer, destroy, count));
  return *object != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

PH_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) noexcept {
  PH_CALL(cudaUserObjectRetain);
  return count != 0 && retain_user_object(object, count) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) noexcept {
  PH_CALL(cudaUserObjectRelease);
  return count != 0 && release_user_object(object, count) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                                unsigned flags) noexcept {
  PH_CALL(cudaGraphRetainUserObject);
  if (count == 0 || (flags & ~static_cast<unsigned>(cudaGraphUserObjectMove)) != 0) {
    return returned(cudaErrorInvalidValue);
  }
  return keep_in_graph(graph, object, count, flags != 0) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) noexcept {
  PH_CALL(cudaGraphReleaseUserObject);
  return count != 0 && drop_from_graph(graph, object, count) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) noexcept {
  PH_CALL(cudaGraphDestroy, HostCost::Setup);
  return destroy_graph(graph) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) noexcept {
  PH_CALL(cudaGraphExecDestroy, HostCost::Setup);
  return destroy_graph_exec(exec) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

}  // extern "C"
