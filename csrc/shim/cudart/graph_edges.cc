// What is known of a graph's nodes, and what they wait for.
#include "shim/cudart/cudart.h"

#include <algorithm>

#include "shim/graph/graph_nodes.h"

using namespace ph;
using namespace ph::cudart;

extern "C" {

PH_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) noexcept {
  PH_CALL(cudaGraphNodeGetType);
  return returned("cudaGraphNodeGetType", calls::tell_kind(node, type));
}

PH_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) noexcept {
  PH_CALL(cudaGraphDestroyNode);
  return returned("cudaGraphDestroyNode", calls::destroy_node(node));
}

PH_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                               std::size_t count) noexcept {
  PH_CALL(cudaGraphAddDependencies);
  return returned("cudaGraphAddDependencies", calls::add_edges(graph, calls::handles(from), calls::handles(to), count,
                                                               calls::are_plain(edges, count)));
}

PH_EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                                  std::size_t count) noexcept {
  PH_CALL(cudaGraphRemoveDependencies);
  return returned("cudaGraphRemoveDependencies", calls::remove_edges(graph, calls::handles(from), calls::handles(to),
                                                                     count, calls::are_plain(edges, count)));
}

PH_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) noexcept {
  PH_CALL(cudaGraphGetRootNodes);
  const auto graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  calls::give_nodes(root_nodes(*graph), calls::handle_place(nodes), *count);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        cudaGraphEdgeData* edges, std::size_t* count) noexcept {
  PH_CALL(cudaGraphGetEdges);
  const auto graph = find_graph(handle);
  if (graph == nullptr || count == nullptr || (from == nullptr) != (to == nullptr)) {
    return returned(cudaErrorInvalidValue);
  }
  GraphNodes first, second;
  for (void* node : graph->nodes) {
    for (void* dependency : find_graph_node(node)->dependencies) {
      first.push_back(dependency);
      second.push_back(node);
    }
  }
  std::size_t room = *count;
  calls::give_nodes(first, calls::handle_place(from), *count);
  calls::give_nodes(second, calls::handle_place(to), room);
  if (edges != nullptr && from != nullptr) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                   cudaGraphEdgeData* edges, std::size_t* count) noexcept {
  PH_CALL(cudaGraphNodeGetDependencies);
  const GraphNode* found = find_graph_node(node);
  if (found == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  calls::give_nodes(found->dependencies, calls::handle_place(dependencies), *count);
  if (edges != nullptr && dependencies != nullptr) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                                     cudaGraphEdgeData* edges, std::size_t* count) noexcept {
  PH_CALL(cudaGraphNodeGetDependentNodes);
  if (find_graph_node(node) == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  calls::give_nodes(dependents_of(node), calls::handle_place(dependents), *count);
  if (edges != nullptr && dependents != nullptr) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return cudaSuccess;
}

}  // extern "C"
