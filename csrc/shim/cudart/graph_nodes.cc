// Graphs that are built node by node. What a node does is captured from the call that would do it.
#include "shim/cudart/cudart.h"

#include <utility>

#include "shim/graph/graph_nodes.h"
#include "shim/launch/work.h"

using namespace ph;
using namespace ph::cudart;

namespace {

// Where in a graph a node is added.
struct Place {
  const char* call;
  cudaGraphNode_t* out;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  std::size_t count;
};

cudaError_t add(const Place& place, NodeKind kind, GraphWork work) noexcept {
  if (place.out == nullptr) return returned(cudaErrorInvalidValue);
  if (is_captured(place.graph)) return refused(place.call, kOnCaptured);
  *place.out = static_cast<cudaGraphNode_t>(add_graph_node(
      place.graph, kind, reinterpret_cast<const void* const*>(place.dependencies), place.count, std::move(work)));
  return *place.out != nullptr ? cudaSuccess : returned(cudaErrorInvalidValue);
}

cudaError_t make_kernel(const char* call, GraphWork& work, const cudaKernelNodeParams* of) noexcept {
  if (of == nullptr) return returned(cudaErrorInvalidValue);
  KernelFunction* function = find_kernel(of->func);
  if (function == nullptr) return returned(cudaErrorInvalidDeviceFunction);
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

cudaError_t make_fill(GraphWork& work, const cudaMemsetParams* of) noexcept {
  if (of == nullptr || (of->elementSize != 1 && of->elementSize != 2 && of->elementSize != 4)) {
    return returned(cudaErrorInvalidValue);
  }
  return make_work(work, [&](StreamRef stream) {
    cudaError_t error = cudaSuccess;
    for (std::size_t row = 0; row < of->height && error == cudaSuccess; ++row) {
      error = fill_on(stream, static_cast<char*>(of->dst) + row * of->pitch, of->value, of->elementSize, of->width);
    }
    return error;
  });
}

cudaError_t make_host(GraphWork& work, const cudaHostNodeParams* of) noexcept {
  if (of == nullptr || of->fn == nullptr) return returned(cudaErrorInvalidValue);
  return make_work(work, [of](StreamRef stream) {
    launch_host_function(stream, [function = of->fn, data = of->userData] { function(data); });
    return cudaSuccess;
  });
}

cudaError_t make_event(GraphWork& work, NodeKind kind, cudaEvent_t event) noexcept {
  if (!resolve_event(event).valid) return returned(cudaErrorInvalidResourceHandle);
  return make_work(work, [&](StreamRef stream) {
    capture_work(stream, kind, [kind, event](StreamRef launched) {
      kind == NodeKind::EventRecord ? static_cast<void>(record_event(event, launched))
                                    : stream_wait_event(launched, resolve_event(event));
    });
    return cudaSuccess;
  });
}

cudaError_t set_work(const char* call, cudaGraphNode_t node, NodeKind kind, GraphWork work) noexcept {
  if (is_node_of_captured(node)) return refused(call, kOnCaptured);
  return set_node_work(node, kind, std::move(work)) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

cudaError_t set_work(const char* call, cudaGraphExec_t exec, cudaGraphNode_t node, NodeKind kind,
                     GraphWork work) noexcept {
  if (is_node_of_captured(node)) return refused(call, kOnCaptured);
  return set_exec_work(exec, node, kind, std::move(work)) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

}  // namespace

#define PH_MAKE(work, make) \
  GraphWork work;           \
  if (const cudaError_t error = (make); error != cudaSuccess) return error

extern "C" {

PH_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) noexcept {
  PH_CALL(cudaGraphCreate);
  if (graph == nullptr || flags != 0) return returned(cudaErrorInvalidValue);
  *graph = static_cast<cudaGraph_t>(create_built_graph());
  return *graph != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

PH_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, std::size_t count,
                                             const cudaKernelNodeParams* of) noexcept {
  PH_CALL(cudaGraphAddKernelNode);
  PH_MAKE(work, make_kernel("cudaGraphAddKernelNode", work, of));
  return add({"cudaGraphAddKernelNode", node, graph, dependencies, count}, NodeKind::Kernel, work);
}

PH_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, std::size_t count,
                                             const cudaMemcpy3DParms* of) noexcept {
  PH_CALL(cudaGraphAddMemcpyNode);
  PH_MAKE(work, make_copy("cudaGraphAddMemcpyNode", work, of));
  return add({"cudaGraphAddMemcpyNode", node, graph, dependencies, count}, NodeKind::Copy, work);
}

PH_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies, std::size_t count,
                                               void* destination, const void* source, std::size_t bytes,
                                               cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaGraphAddMemcpyNode1D);
  PH_MAKE(work, make_copy(work, destination, source, bytes, kind));
  return add({"cudaGraphAddMemcpyNode1D", node, graph, dependencies, count}, NodeKind::Copy, work);
}

PH_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, std::size_t count,
                                             const cudaMemsetParams* of) noexcept {
  PH_CALL(cudaGraphAddMemsetNode);
  PH_MAKE(work, make_fill(work, of));
  return add({"cudaGraphAddMemsetNode", node, graph, dependencies, count}, NodeKind::Fill, work);
}

PH_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, std::size_t count,
                                           const cudaHostNodeParams* of) noexcept {
  PH_CALL(cudaGraphAddHostNode);
  PH_MAKE(work, make_host(work, of));
  return add({"cudaGraphAddHostNode", node, graph, dependencies, count}, NodeKind::Host, work);
}

PH_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                            const cudaGraphNode_t* dependencies, std::size_t count) noexcept {
  PH_CALL(cudaGraphAddEmptyNode);
  return add({"cudaGraphAddEmptyNode", node, graph, dependencies, count}, NodeKind::Empty, nullptr);
}

PH_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies, std::size_t count,
                                                  cudaEvent_t event) noexcept {
  PH_CALL(cudaGraphAddEventRecordNode);
  PH_MAKE(work, make_event(work, NodeKind::EventRecord, event));
  return add({"cudaGraphAddEventRecordNode", node, graph, dependencies, count}, NodeKind::EventRecord, work);
}

PH_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, std::size_t count,
                                                cudaEvent_t event) noexcept {
  PH_CALL(cudaGraphAddEventWaitNode);
  PH_MAKE(work, make_event(work, NodeKind::EventWait, event));
  return add({"cudaGraphAddEventWaitNode", node, graph, dependencies, count}, NodeKind::EventWait, work);
}

// The child is copied: what becomes of it afterwards does not concern the node.
PH_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies, std::size_t count,
                                                 cudaGraph_t child) noexcept {
  PH_CALL(cudaGraphAddChildGraphNode);
  const auto inner = find_graph(child);
  GraphWork work = inner != nullptr ? launchable(inner) : nullptr;
  if (work == nullptr || child == graph) return returned(cudaErrorInvalidValue);
  return add({"cudaGraphAddChildGraphNode", node, graph, dependencies, count}, NodeKind::Child, work);
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
      add({"cudaGraphAddMemAllocNode", node, graph, dependencies, count}, NodeKind::Allocate, nullptr);
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
  if (!is_graph_memory(pointer)) return returned(cudaErrorInvalidValue);
  return add({"cudaGraphAddMemFreeNode", node, graph, dependencies, count}, NodeKind::Free, nullptr);
}

PH_EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* of) noexcept {
  PH_CALL(cudaGraphKernelNodeSetParams);
  PH_MAKE(work, make_kernel("cudaGraphKernelNodeSetParams", work, of));
  return set_work("cudaGraphKernelNodeSetParams", node, NodeKind::Kernel, work);
}

PH_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* of) noexcept {
  PH_CALL(cudaGraphMemcpyNodeSetParams);
  PH_MAKE(work, make_copy("cudaGraphMemcpyNodeSetParams", work, of));
  return set_work("cudaGraphMemcpyNodeSetParams", node, NodeKind::Copy, work);
}

PH_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* of) noexcept {
  PH_CALL(cudaGraphMemsetNodeSetParams);
  PH_MAKE(work, make_fill(work, of));
  return set_work("cudaGraphMemsetNodeSetParams", node, NodeKind::Fill, work);
}

PH_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* of) noexcept {
  PH_CALL(cudaGraphHostNodeSetParams);
  PH_MAKE(work, make_host(work, of));
  return set_work("cudaGraphHostNodeSetParams", node, NodeKind::Host, work);
}

PH_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaKernelNodeParams* of) noexcept {
  PH_CALL(cudaGraphExecKernelNodeSetParams);
  PH_MAKE(work, make_kernel("cudaGraphExecKernelNodeSetParams", work, of));
  return set_work("cudaGraphExecKernelNodeSetParams", exec, node, NodeKind::Kernel, work);
}

PH_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms* of) noexcept {
  PH_CALL(cudaGraphExecMemcpyNodeSetParams);
  PH_MAKE(work, make_copy("cudaGraphExecMemcpyNodeSetParams", work, of));
  return set_work("cudaGraphExecMemcpyNodeSetParams", exec, node, NodeKind::Copy, work);
}

PH_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* destination,
                                                         const void* source, std::size_t bytes,
                                                         cudaMemcpyKind kind) noexcept {
  PH_CALL(cudaGraphExecMemcpyNodeSetParams1D);
  PH_MAKE(work, make_copy(work, destination, source, bytes, kind));
  return set_work("cudaGraphExecMemcpyNodeSetParams1D", exec, node, NodeKind::Copy, work);
}

PH_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemsetParams* of) noexcept {
  PH_CALL(cudaGraphExecMemsetNodeSetParams);
  PH_MAKE(work, make_fill(work, of));
  return set_work("cudaGraphExecMemsetNodeSetParams", exec, node, NodeKind::Fill, work);
}

PH_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const cudaHostNodeParams* of) noexcept {
  PH_CALL(cudaGraphExecHostNodeSetParams);
  PH_MAKE(work, make_host(work, of));
  return set_work("cudaGraphExecHostNodeSetParams", exec, node, NodeKind::Host, work);
}

}  // extern "C"
