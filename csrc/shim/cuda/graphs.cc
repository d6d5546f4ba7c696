// Stream capture and graphs: the runtime's own objects under the driver's names.
#include "shim/cuda/driver.h"
#include "shim/graph/graph.h"

using namespace ph;
using namespace ph::driver;

extern "C" {

PH_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) noexcept {
  PH_CALL(cuStreamBeginCapture_v2, HostCost::Setup);
  return result_of("cuStreamBeginCapture", calls::begin_capture(handle, static_cast<int>(mode)));
}

PH_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) noexcept {
  PH_CALL(cuStreamEndCapture, HostCost::Setup);
  return result_of("cuStreamEndCapture", calls::end_capture(handle, calls::handle_place(graph)));
}

PH_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) noexcept {
  PH_CALL(cuStreamIsCapturing);
  return result_of("cuStreamIsCapturing", calls::tell_status(handle, status));
}

PH_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                             CUgraph* graph, const CUgraphNode** dependencies,
                                             const CUgraphEdgeData** edges, size_t* count) noexcept {
  PH_CALL(cuStreamGetCaptureInfo_v3);
  return result_of("cuStreamGetCaptureInfo",
                   calls::tell_capture(handle, status, id, graph, dependencies, edges, count));
}

PH_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) noexcept {
  PH_CALL(cuThreadExchangeStreamCaptureMode);
  return result_of("cuThreadExchangeStreamCaptureMode", calls::exchange_mode(mode));
}

PH_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) noexcept {
  PH_CALL(cuGraphInstantiateWithFlags, HostCost::Setup);
  return result_of("cuGraphInstantiateWithFlags", calls::instantiate(calls::handle_place(exec), graph, flags));
}

PH_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) noexcept {
  PH_CALL(cuGraphLaunch, HostCost::Launch);
  return result_of("cuGraphLaunch", calls::launch_graph(exec, handle));
}

PH_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) noexcept {
  PH_CALL(cuGraphGetNodes);
  return result_of("cuGraphGetNodes", calls::graph_nodes(handle, calls::handle_place(nodes), count));
}

PH_EXPORT CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) noexcept {
  PH_CALL(cuGraphDebugDotPrint);
  return result_of("cuGraphDebugDotPrint", calls::print_graph(handle, path));
}

PH_EXPORT CUresult cuGraphDestroy(CUgraph graph) noexcept {
  PH_CALL(cuGraphDestroy, HostCost::Setup);
  return result_of("cuGraphDestroy", calls::destroy_graph(graph));
}

PH_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) noexcept {
  PH_CALL(cuGraphExecDestroy, HostCost::Setup);
  return result_of("cuGraphExecDestroy", calls::destroy_exec(exec));
}

}  // extern "C"
