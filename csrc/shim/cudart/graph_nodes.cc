// Graphs that are built node by node. What a node does is captured from the call that would do it.
#include "shim/cudart/cudart.h"

#include <utility>

#include "shim/graph/graph_nodes.h"
#include "shim/launch/work.h"

using namespace ph;
using namespace ph::cudart;

namespace {

cudaError_t make_kernel(const char* call, GraphWork& work, const cudaKernelNodeParams* of) noexcept {
  if (of == nullptr) return returned(cudaErrorInvalidValue);
  KernelFunction* function = find_kernel(of->func);
  if (function == nullptr) return returned(kUnknownKernel);
  if (of->extra != nullptr) return refused(call, "with arguments in `extra`");
  return make_work(work, [&](StreamRef stream) {
    return launch_on(stream, *function, of->gridDim, of->blockDim, of->kernelParams, of->sharedMemBytes);
  });
}

// Planes of rows; arrays are not modelled.
cudaError_t make_copy(const char* call, GraphWork& work, const cudaMemcpy3DParms* of) noexcept {
  if (of == nullptr) return returned(cudaErrorInvalidValue);
  if (of->srcArray != nullptr || of->dstArray != nullptr) {
    return refused(call, "of a CUDA array");
  }
  const auto first = [](const cudaPitchedPtr& at, const cudaPos& from) {
    return static_cast<char*>(at.ptr) + (from.z * at.ysize + from.y) * at.pitch + from.x;
  };
  return make_work(work, [&](StreamRef stream) {
    cudaError_t error = cudaSuccess;
    for (std::size_t plane = 0; plane < of->extent.depth && error == cudaSuccess; ++plane) {
      error = copy_on(stream, first(of->dstPtr, of->dstPos) + plane * of->dstPtr.ysize * of->dstPtr.pitch,
                      of->dstPtr.pitch, first(of->srcPtr, of->srcPos) + plane * of->srcPtr.ysize * of->srcPtr.pitch,
                      of->srcPtr.pitch, of->extent.width, of->extent.height, of->kind, false);
    }
    return error;
  });
}

cudaError_t make_copy(GraphWork& work, void* destination, const void* source, std::size_t bytes,
                      cudaMemcpyKind kind) noexcept {
  return make_work(work, [&](StreamRef stream) {
    return copy_on(stream, destination, bytes, source, bytes, bytes, 1, kind, false);
  });
}

}  // namespace

#define PH_MAKE(work, make) \
  GraphWork work;           \
  if (const cudaError_t error = (make); error != cudaSuccess) return error

extern "C" {

PH_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) noexcept {
  PH_CALL(cudaGraphCreate);
  return returned("cudaGraphCreate", calls::create_graph(calls::handle_place(graph), flags));
}

PH_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, std::size_t count,
                                             const cudaKernelNodeParams* of) noexcept {
  PH_CALL(cudaGraphAddKernelNode);
  PH_MAKE(work, make_kernel("cudaGraphAddKernelNode", work, of));
  return returned("cudaGraphAddKernelNode",
                  calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Kernel, work));
}

PH_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, std::size_t count,
                                             const cudaMemcpy3DParms* of) noexcept {
  PH_CALL(cudaGraphAddMemcpyNode);
  PH_MAKE(work, make_copy("cudaGraphAddMemcpyNode", work, of));
  return returned("cudaGraphAddMemcpyNode",
                  calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Copy, work));
}

PH_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies, std::size_t count,
                                               void* destination, const void* source, std::size_t bytes,
                                               cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaGraphAddMemcpyNode1D);
  PH_MAKE(work, make_copy(work, destination, source, bytes, kind));
  return returned("cudaGraphAddMemcpyNode1D",
                  calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Copy, work));
}

PH_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, std::size_t count,
                                             const cudaMemsetParams* of) noexcept {
  PH_CALL(cudaGraphAddMemsetNode);
  PH_MAKE(work, returned("cudaGraphAddMemsetNode", calls::make_fill(work, of, &cudaMemsetParams::dst)));
  return returned("cudaGraphAddMemsetNode",
                  calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Fill, work));
}

PH_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, std::size_t count,
                                           const cudaHostNodeParams* of) noexcept {
  PH_CALL(cudaGraphAddHostNode);
  PH_MAKE(work, returned("cudaGraphAddHostNode", calls::make_host(work, of)));
  return returned("cudaGraphAddHostNode",
                  calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Host, work));
}

PH_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                            const cudaGraphNode_t* dependencies, std::size_t count) noexcept {
  PH_CALL(cudaGraphAddEmptyNode);
  return returned("cudaGraphAddEmptyNode",
                  calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Empty, nullptr));
}

PH_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies, std::size_t count,
                                                  cudaEvent_t event) noexcept {
  PH_CALL(cudaGraphAddEventRecordNode);
  return returned(
      "cudaGraphAddEventRecordNode",
      calls::add_event_node(calls::place_of(node, graph, dependencies, count), NodeKind::EventRecord, event));
}

PH_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, std::size_t count,
                                                cudaEvent_t event) noexcept {
  PH_CALL(cudaGraphAddEventWaitNode);
  return returned("cudaGraphAddEventWaitNode",
                  calls::add_event_node(calls::place_of(node, graph, dependencies, count), NodeKind::EventWait, event));
}

PH_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies, std::size_t count,
                                                 cudaGraph_t child) noexcept {
  PH_CALL(cudaGraphAddChildGraphNode);
  return returned("cudaGraphAddChildGraphNode",
                  calls::add_child_node(calls::place_of(node, graph, dependencies, count), child));
}

PH_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies, std::size_t count,
                                               cudaMemAllocNodeParams* of) noexcept {
  PH_CALL(cudaGraphAddMemAllocNode);
  if (of == nullptr || of->bytesize == 0 || of->poolProps.allocType != cudaMemAllocationTypePinned ||
      of->poolProps.location.type != cudaMemLocationTypeDevice) {
    return returned(cudaErrorInvalidValue);
  }
  if (!is_device(of->poolProps.location.id)) return returned(cudaErrorInvalidDevice);
  const cudaError_t error =
      returned("cudaGraphAddMemAllocNode",
               calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Allocate, nullptr));
  if (error != cudaSuccess) return error;
  of->dptr = allocate_for_graph(graph, of->poolProps.location.id, of->bytesize);
  if (of->dptr != nullptr) return cudaSuccess;
  destroy_graph_node(*node);
  return returned(cudaErrorMemoryAllocation);
}

PH_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                              const cudaGraphNode_t* dependencies, std::size_t count,
                                              void* pointer) noexcept {
  PH_CALL(cudaGraphAddMemFreeNode);
  if (!free_graph_memory(pointer)) return returned(cudaErrorInvalidValue);
  return returned("cudaGraphAddMemFreeNode",
                  calls::add_node(calls::place_of(node, graph, dependencies, count), NodeKind::Free, nullptr));
}

PH_EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* of) noexcept {
  PH_CALL(cudaGraphKernelNodeSetParams);
  PH_MAKE(work, make_kernel("cudaGraphKernelNodeSetParams", work, of));
  return returned("cudaGraphKernelNodeSetParams", calls::set_work(node, NodeKind::Kernel, work));
}

PH_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* of) noexcept {
  PH_CALL(cudaGraphMemcpyNodeSetParams);
  PH_MAKE(work, make_copy("cudaGraphMemcpyNodeSetParams", work, of));
  return returned("cudaGraphMemcpyNodeSetParams", calls::set_work(node, NodeKind::Copy, work));
}

PH_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* of) noexcept {
  PH_CALL(cudaGraphMemsetNodeSetParams);
  PH_MAKE(work, returned("cudaGraphMemsetNodeSetParams", calls::make_fill(work, of, &cudaMemsetParams::dst)));
  return returned("cudaGraphMemsetNodeSetParams", calls::set_work(node, NodeKind::Fill, work));
}

PH_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* of) noexcept {
  PH_CALL(cudaGraphHostNodeSetParams);
  PH_MAKE(work, returned("cudaGraphHostNodeSetParams", calls::make_host(work, of)));
  return returned("cudaGraphHostNodeSetParams", calls::set_work(node, NodeKind::Host, work));
}

PH_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaKernelNodeParams* of) noexcept {
  PH_CALL(cudaGraphExecKernelNodeSetParams);
  PH_MAKE(work, make_kernel("cudaGraphExecKernelNodeSetParams", work, of));
  return returned("cudaGraphExecKernelNodeSetParams", calls::set_exec_work(exec, node, NodeKind::Kernel, work));
}

PH_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms* of) noexcept {
  PH_CALL(cudaGraphExecMemcpyNodeSetParams);
  PH_MAKE(work, make_copy("cudaGraphExecMemcpyNodeSetParams", work, of));
  return returned("cudaGraphExecMemcpyNodeSetParams", calls::set_exec_work(exec, node, NodeKind::Copy, work));
}

PH_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* destination,
                                                         const void* source, std::size_t bytes,
                                                         cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaGraphExecMemcpyNodeSetParams1D);
  PH_MAKE(work, make_copy(work, destination, source, bytes, kind));
  return returned("cudaGraphExecMemcpyNodeSetParams1D", calls::set_exec_work(exec, node, NodeKind::Copy, work));
}

PH_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemsetParams* of) noexcept {
  PH_CALL(cudaGraphExecMemsetNodeSetParams);
  PH_MAKE(work, returned("cudaGraphExecMemsetNodeSetParams", calls::make_fill(work, of, &cudaMemsetParams::dst)));
  return returned("cudaGraphExecMemsetNodeSetParams", calls::set_exec_work(exec, node, NodeKind::Fill, work));
}

PH_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const cudaHostNodeParams* of) noexcept {
  PH_CALL(cudaGraphExecHostNodeSetParams);
  PH_MAKE(work, returned("cudaGraphExecHostNodeSetParams", calls::make_host(work, of)));
  return returned("cudaGraphExecHostNodeSetParams", calls::set_exec_work(exec, node, NodeKind::Host, work));
}

}  // extern "C"
