// Stream capture and graphs.
#include "shim/cudart/cudart.h"

#include "shim/graph/graph.h"

using namespace ph;
using namespace ph::cudart;

extern "C" {

PH_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) noexcept {
  PH_CALL(cudaStreamBeginCapture, HostCost::Setup);
  return returned("cudaStreamBeginCapture", calls::begin_capture(handle, static_cast<int>(mode)));
}

PH_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) noexcept {
  PH_CALL(cudaStreamEndCapture, HostCost::Setup);
  return returned("cudaStreamEndCapture", calls::end_capture(handle, calls::handle_place(graph)));
}

PH_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) noexcept {
  PH_CALL(cudaStreamIsCapturing);
  return returned("cudaStreamIsCapturing", calls::tell_status(handle, status));
}

PH_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                               std::size_t* count) noexcept {
  PH_CALL(cudaStreamGetCaptureInfo);
  return returned("cudaStreamGetCaptureInfo",
                  calls::tell_capture(handle, status, id, graph, dependencies, edges, count));
}

PH_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) noexcept {
  PH_CALL(cudaThreadExchangeStreamCaptureMode);
  return returned("cudaThreadExchangeStreamCaptureMode", calls::exchange_mode(mode));
}

PH_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           unsigned long long flags) noexcept {
  PH_CALL(cudaGraphInstantiate, HostCost::Setup);
  return returned("cudaGraphInstantiate", calls::instantiate(calls::handle_place(exec), graph, flags));
}

PH_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                    unsigned long long flags) noexcept {
  PH_CALL(cudaGraphInstantiateWithFlags, HostCost::Setup);
  return returned("cudaGraphInstantiateWithFlags", calls::instantiate(calls::handle_place(exec), graph, flags));
}

// A graph that was uploaded starts sooner the first time; that start is not modelled.
PH_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) noexcept {
  PH_CALL(cudaGraphUpload, HostCost::Setup);
  PH_RESOLVE_STREAM(stream, handle);
  return is_graph_exec(exec) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) noexcept {
  PH_CALL(cudaGraphLaunch, HostCost::Launch);
  return returned("cudaGraphLaunch", calls::launch_graph(exec, handle));
}

PH_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                          cudaGraphExecUpdateResultInfo* result) noexcept {
  PH_CALL(cudaGraphExecUpdate, HostCost::Setup);
  return returned("cudaGraphExecUpdate", calls::update_exec(exec, graph, result));
}

PH_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) noexcept {
  PH_CALL(cudaGraphGetNodes);
  return returned("cudaGraphGetNodes", calls::graph_nodes(handle, calls::handle_place(nodes), count));
}

PH_EXPORT cudaError_t cudaGraphDebugDotPrint(cudaGraph_t handle, const char* path, unsigned) noexcept {
  PH_CALL(cudaGraphDebugDotPrint);
  return returned("cudaGraphDebugDotPrint", calls::print_graph(handle, path));
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
  return returned("cudaGraphDestroy", calls::destroy_graph(graph));
}

PH_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) noexcept {
  PH_CALL(cudaGraphExecDestroy, HostCost::Setup);
  return returned("cudaGraphExecDestroy", calls::destroy_exec(exec));
}

}  // extern "C"
