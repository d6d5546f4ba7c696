// What only CUDA 12 has: names that its programs use where those of CUDA 13 use another, with older arguments.
#include "shim/cudart/cudart.h"

#if CUDART_VERSION < 13000

#include "shim/calls/managed_calls.h"
#include "shim/core/failure.h"

namespace ph::cuda12 {
namespace {

cudaError_t tell_capture(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph, const cudaGraphNode_t** dependencies, std::size_t* count) noexcept {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

cudaError_t dependencies_of(cudaGraphNode_t node, cudaGraphNode_t* dependencies, std::size_t* count) noexcept {
  return cudaGraphNodeGetDependencies_v2(node, dependencies, nullptr, count);
}

cudaError_t dependents_of(cudaGraphNode_t node, cudaGraphNode_t* dependents, std::size_t* count) noexcept {
  return cudaGraphNodeGetDependentNodes_v2(node, dependents, nullptr, count);
}

cudaError_t edges_of(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, std::size_t* count) noexcept {
  return cudaGraphGetEdges_v2(graph, from, to, nullptr, count);
}

cudaError_t add_edges(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                      std::size_t count) noexcept {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

cudaError_t remove_edges(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                         std::size_t count) noexcept {
  return cudaGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

cudaMemLocation location_of(int device) noexcept {
  const auto [type, id] = calls::location_of(device);
  return {static_cast<cudaMemLocationType>(type), id};
}

cudaError_t advise(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice, int device) noexcept {
  return cudaMemAdvise_v2(pointer, bytes, advice, location_of(device));
}

cudaError_t prefetch(const void* pointer, std::size_t bytes, int device, cudaStream_t stream) noexcept {
  return cudaMemPrefetchAsync_v2(pointer, bytes, location_of(device), 0, stream);
}

}  // namespace
}  // namespace ph::cuda12

#undef cudaGraphAddDependencies
#undef cudaGraphGetEdges
#undef cudaGraphNodeGetDependencies
#undef cudaGraphNodeGetDependentNodes
#undef cudaGraphRemoveDependencies
#undef cudaMemAdvise
#undef cudaMemPrefetchAsync
#undef cudaStreamGetCaptureInfo
#undef cudaGetDeviceProperties  // the header makes it _v2, which is the body in devices.cc

extern "C" {

PH_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                   std::size_t* count) noexcept {
  return ph::cuda12::dependencies_of(node, dependencies, count);
}

PH_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                                     std::size_t* count) noexcept {
  return ph::cuda12::dependents_of(node, dependents, count);
}

PH_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        std::size_t* count) noexcept {
  return ph::cuda12::edges_of(graph, from, to, count);
}

PH_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, std::size_t count) noexcept {
  return ph::cuda12::add_edges(graph, from, to, count);
}

PH_EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to, std::size_t count) noexcept {
  return ph::cuda12::remove_edges(graph, from, to, count);
}

PH_EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** dependencies, std::size_t* count) noexcept {
  return ph::cuda12::tell_capture(stream, status, id, graph, dependencies, count);
}

PH_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id) noexcept {
  return ph::cuda12::tell_capture(stream, status, id, nullptr, nullptr, nullptr);
}

PH_EXPORT cudaError_t cudaMemAdvise(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice,
                                    int device) noexcept {
  return ph::cuda12::advise(pointer, bytes, advice, device);
}

PH_EXPORT cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, int device,
                                           cudaStream_t stream) noexcept {
  return ph::cuda12::prefetch(pointer, bytes, device, stream);
}

// Of programs that were built with CUDA 11: its structure is another.
PH_EXPORT cudaError_t cudaGetDeviceProperties(void*, int) noexcept {
  return ph::cudart::refused("cudaGetDeviceProperties", "of CUDA 11");
}

}  // extern "C"

#endif
