// Graphs that are built node by node: the runtime's own objects under the driver's names.
#include "shim/channel/rank.h"
#include "shim/cuda/modules.h"
#include "shim/graph/graph_nodes.h"
#include "shim/launch/work.h"
#include "shim/streams/copies.h"

using namespace ph;
using namespace ph::driver;

namespace {

CUresult make_kernel(GraphWork& work, const CUDA_KERNEL_NODE_PARAMS* of) noexcept {
  if (!of) return CUDA_ERROR_INVALID_VALUE;
  const CUfunction function = of->func ? of->func : reinterpret_cast<CUfunction>(of->kern);
  const LaunchShape shape{
      {of->gridDimX, of->gridDimY, of->gridDimZ}, {of->blockDimX, of->blockDimY, of->blockDimZ}, of->sharedMemBytes};
  return make_work(work,
                   [&](StreamRef stream) { return launch_on(stream, function, shape, of->kernelParams, of->extra); });
}

// Planes of rows; arrays are not modelled.
CUresult make_copy(GraphWork& work, const CUDA_MEMCPY3D* of) noexcept {
  if (!of) return CUDA_ERROR_INVALID_VALUE;
  if (of->srcMemoryType == CU_MEMORYTYPE_ARRAY || of->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return refused("cuGraphAddMemcpyNode", "of a CUDA array");
  }
  const void* source = of->srcMemoryType == CU_MEMORYTYPE_HOST ? of->srcHost : to_pointer(of->srcDevice);
  void* destination = of->dstMemoryType == CU_MEMORYTYPE_HOST ? of->dstHost : to_pointer(of->dstDevice);
  if (!source || !destination) return CUDA_ERROR_INVALID_VALUE;
  return make_work(work, [&](StreamRef stream) {
    for (std::size_t plane = 0; plane < of->Depth; ++plane) {
      auto* to = static_cast<char*>(destination) + ((of->dstZ + plane) * of->dstHeight + of->dstY) * of->dstPitch +
                 of->dstXInBytes;
      const auto* from = static_cast<const char*>(source) +
                         ((of->srcZ + plane) * of->srcHeight + of->srcY) * of->srcPitch + of->srcXInBytes;
      if (!can_copy(to, of->dstPitch, from, of->srcPitch, of->WidthInBytes, of->Height)) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      copy_2d(to, of->dstPitch, from, of->srcPitch, of->WidthInBytes, of->Height, stream, false);
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace

#define PH_MAKE(work, make) \
  GraphWork work;           \
  if (const CUresult result = (make); result != CUDA_SUCCESS) return result

extern "C" {

PH_EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned flags) noexcept {
  PH_CALL(cuGraphCreate);
  return result_of("cuGraphCreate", calls::create_graph(calls::handle_place(graph), flags));
}

PH_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                           size_t count, const CUDA_KERNEL_NODE_PARAMS* of) noexcept {
  PH_CALL(cuGraphAddKernelNode_v2);
  PH_MAKE(work, make_kernel(work, of));
  return result_of("cuGraphAddKernelNode",
                   calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Kernel, work));
}

PH_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                        const CUDA_MEMCPY3D* of, CUcontext) noexcept {
  PH_CALL(cuGraphAddMemcpyNode);
  PH_MAKE(work, make_copy(work, of));
  return result_of("cuGraphAddMemcpyNode",
                   calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Copy, work));
}

PH_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                        const CUDA_MEMSET_NODE_PARAMS* of, CUcontext) noexcept {
  PH_CALL(cuGraphAddMemsetNode);
  PH_MAKE(work, result_of("cuGraphAddMemsetNode", calls::make_fill(work, of, &CUDA_MEMSET_NODE_PARAMS::dst)));
  return result_of("cuGraphAddMemsetNode",
                   calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Fill, work));
}

PH_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                      const CUDA_HOST_NODE_PARAMS* of) noexcept {
  PH_CALL(cuGraphAddHostNode);
  PH_MAKE(work, result_of("cuGraphAddHostNode", calls::make_host(work, of)));
  return result_of("cuGraphAddHostNode",
                   calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Host, work));
}

PH_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                       size_t count) noexcept {
  PH_CALL(cuGraphAddEmptyNode);
  return result_of("cuGraphAddEmptyNode",
                   calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Empty, nullptr));
}

PH_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             size_t count, CUevent event) noexcept {
  PH_CALL(cuGraphAddEventRecordNode);
  return result_of("cuGraphAddEventRecordNode", calls::add_event_node(calls::place_of(node, graph, dependencies, count),
                                                                      NodeKind::EventRecord, event));
}

PH_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                           size_t count, CUevent event) noexcept {
  PH_CALL(cuGraphAddEventWaitNode);
  return result_of("cuGraphAddEventWaitNode", calls::add_event_node(calls::place_of(node, graph, dependencies, count),
                                                                    NodeKind::EventWait, event));
}

PH_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                            size_t count, CUgraph child) noexcept {
  PH_CALL(cuGraphAddChildGraphNode);
  return result_of("cuGraphAddChildGraphNode",
                   calls::add_child_node(calls::place_of(node, graph, dependencies, count), child));
}

PH_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS* of) noexcept {
  PH_CALL(cuGraphExecKernelNodeSetParams_v2);
  PH_MAKE(work, make_kernel(work, of));
  return result_of("cuGraphExecKernelNodeSetParams", calls::set_exec_work(exec, node, NodeKind::Kernel, work));
}

PH_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) noexcept {
  PH_CALL(cuGraphExecUpdate_v2, HostCost::Setup);
  return result_of("cuGraphExecUpdate", calls::update_exec(exec, graph, info));
}

PH_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) noexcept {
  PH_CALL(cuGraphNodeGetType);
  return result_of("cuGraphNodeGetType", calls::tell_kind(node, type));
}

PH_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node) noexcept {
  PH_CALL(cuGraphDestroyNode);
  return result_of("cuGraphDestroyNode", calls::destroy_node(node));
}

PH_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                             const CUgraphEdgeData* edges, size_t count) noexcept {
  PH_CALL(cuGraphAddDependencies_v2);
  return result_of("cuGraphAddDependencies", calls::add_edges(graph, calls::handles(from), calls::handles(to), count,
                                                              calls::are_plain(edges, count)));
}

}  // extern "C"
