// Graphs that are built node by node: the runtime's own objects under the driver's names.
#include <algorithm>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/cuda/modules.h"
#include "shim/graph/graph_nodes.h"
#include "shim/launch/work.h"
#include "shim/streams/copies.h"

using namespace ph;
using namespace ph::driver;

namespace {

// Where in a graph a node is added.
struct Place {
  const char* call;
  CUgraphNode* out;
  CUgraph graph;
  const CUgraphNode* dependencies;
  std::size_t count;
};

const void* const* handles(const CUgraphNode* nodes) noexcept { return reinterpret_cast<const void* const*>(nodes); }

CUresult add(const Place& place, NodeKind kind, GraphWork work) noexcept {
  if (!place.out) return CUDA_ERROR_INVALID_VALUE;
  if (is_captured(place.graph)) return refused(place.call, kOnCaptured);
  *place.out = static_cast<CUgraphNode>(
      add_graph_node(place.graph, kind, handles(place.dependencies), place.count, std::move(work)));
  return *place.out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

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

CUresult make_fill(GraphWork& work, const CUDA_MEMSET_NODE_PARAMS* of) noexcept {
  if (!of || (of->elementSize != 1 && of->elementSize != 2 && of->elementSize != 4)) return CUDA_ERROR_INVALID_VALUE;
  return make_work(work, [&](StreamRef stream) {
    for (std::size_t row = 0; row < of->height; ++row) {
      if (!can_fill(to_pointer(of->dst + row * of->pitch), of->elementSize, of->width)) return CUDA_ERROR_INVALID_VALUE;
      fill_async(to_pointer(of->dst + row * of->pitch), of->value, of->elementSize, of->width, stream);
    }
    return CUDA_SUCCESS;
  });
}

CUresult make_host(GraphWork& work, const CUDA_HOST_NODE_PARAMS* of) noexcept {
  if (!of || !of->fn) return CUDA_ERROR_INVALID_VALUE;
  return make_work(work, [of](StreamRef stream) {
    launch_host_function(stream, [function = of->fn, data = of->userData] { function(data); });
    return CUDA_SUCCESS;
  });
}

CUresult make_event(GraphWork& work, NodeKind kind, CUevent event) noexcept {
  if (!resolve_event(event).valid) return CUDA_ERROR_INVALID_HANDLE;
  return make_work(work, [&](StreamRef stream) {
    capture_work(stream, kind, [kind, event](StreamRef launched) {
      kind == NodeKind::EventRecord ? static_cast<void>(record_event(event, launched))
                                    : stream_wait_event(launched, resolve_event(event));
    });
    return CUDA_SUCCESS;
  });
}

bool are_plain(const CUgraphEdgeData* edges, std::size_t count) noexcept {
  return !edges || std::all_of(edges, edges + count, [](const CUgraphEdgeData& edge) {
    return edge.from_port == 0 && edge.to_port == 0 && edge.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT;
  });
}

}  // namespace

#define PH_MAKE(work, make) \
  GraphWork work;           \
  if (const CUresult result = (make); result != CUDA_SUCCESS) return result

extern "C" {

PH_EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned flags) noexcept {
  PH_CALL(cuGraphCreate);
  if (!graph || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = static_cast<CUgraph>(create_built_graph());
  return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

PH_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                           size_t count, const CUDA_KERNEL_NODE_PARAMS* of) noexcept {
  PH_CALL(cuGraphAddKernelNode_v2);
  PH_MAKE(work, make_kernel(work, of));
  return add({"cuGraphAddKernelNode", node, graph, dependencies, count}, NodeKind::Kernel, work);
}

PH_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                        const CUDA_MEMCPY3D* of, CUcontext) noexcept {
  PH_CALL(cuGraphAddMemcpyNode);
  PH_MAKE(work, make_copy(work, of));
  return add({"cuGraphAddMemcpyNode", node, graph, dependencies, count}, NodeKind::Copy, work);
}

PH_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                        const CUDA_MEMSET_NODE_PARAMS* of, CUcontext) noexcept {
  PH_CALL(cuGraphAddMemsetNode);
  PH_MAKE(work, make_fill(work, of));
  return add({"cuGraphAddMemsetNode", node, graph, dependencies, count}, NodeKind::Fill, work);
}

PH_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                      const CUDA_HOST_NODE_PARAMS* of) noexcept {
  PH_CALL(cuGraphAddHostNode);
  PH_MAKE(work, make_host(work, of));
  return add({"cuGraphAddHostNode", node, graph, dependencies, count}, NodeKind::Host, work);
}

PH_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                       size_t count) noexcept {
  PH_CALL(cuGraphAddEmptyNode);
  return add({"cuGraphAddEmptyNode", node, graph, dependencies, count}, NodeKind::Empty, nullptr);
}

PH_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             size_t count, CUevent event) noexcept {
  PH_CALL(cuGraphAddEventRecordNode);
  PH_MAKE(work, make_event(work, NodeKind::EventRecord, event));
  return add({"cuGraphAddEventRecordNode", node, graph, dependencies, count}, NodeKind::EventRecord, work);
}

PH_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                           size_t count, CUevent event) noexcept {
  PH_CALL(cuGraphAddEventWaitNode);
  PH_MAKE(work, make_event(work, NodeKind::EventWait, event));
  return add({"cuGraphAddEventWaitNode", node, graph, dependencies, count}, NodeKind::EventWait, work);
}

// The child is copied: what becomes of it afterwards does not concern the node.
PH_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                            size_t count, CUgraph child) noexcept {
  PH_CALL(cuGraphAddChildGraphNode);
  const auto inner = find_graph(child);
  GraphWork work = inner ? launchable(inner) : nullptr;
  if (!work || child == graph) return CUDA_ERROR_INVALID_VALUE;
  return add({"cuGraphAddChildGraphNode", node, graph, dependencies, count}, NodeKind::Child, work);
}

PH_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS* of) noexcept {
  PH_CALL(cuGraphExecKernelNodeSetParams_v2);
  if (is_node_of_captured(node)) return refused("cuGraphExecKernelNodeSetParams", kOnCaptured);
  PH_MAKE(work, make_kernel(work, of));
  return set_exec_work(exec, node, NodeKind::Kernel, work) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) noexcept {
  PH_CALL(cuGraphExecUpdate_v2, HostCost::Setup);
  if (!info) return CUDA_ERROR_INVALID_VALUE;
  *info = {};
  switch (update_graph_exec(exec, graph)) {
    case GraphUpdate::Done: return CUDA_SUCCESS;
    case GraphUpdate::Different:
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    case GraphUpdate::NoSuchHandle: break;
  }
  info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
  return CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) noexcept {
  PH_CALL(cuGraphNodeGetType);
  const GraphNode* found = find_graph_node(node);
  if (!found || !type) return CUDA_ERROR_INVALID_VALUE;
  *type = static_cast<CUgraphNodeType>(found->kind);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node) noexcept {
  PH_CALL(cuGraphDestroyNode);
  if (is_node_of_captured(node)) return refused("cuGraphDestroyNode", kOnCaptured);
  return destroy_graph_node(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                             const CUgraphEdgeData* edges, size_t count) noexcept {
  PH_CALL(cuGraphAddDependencies_v2);
  if (is_captured(graph)) return refused("cuGraphAddDependencies", kOnCaptured);
  if (!are_plain(edges, count)) return refused("cuGraphAddDependencies", "with programmatic launches");
  const bool is_done = find_graph(graph) && add_dependencies(graph, handles(from), handles(to), count);
  return is_done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
