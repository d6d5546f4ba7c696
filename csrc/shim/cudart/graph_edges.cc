// What is known of a graph's nodes, and what they wait for.
#include "shim/cudart/cudart.h"

#include <algorithm>

#include "shim/graph/graph_nodes.h"

using namespace ph;
using namespace ph::cudart;

namespace {

const void* const* handles(const cudaGraphNode_t* nodes) noexcept {
  return reinterpret_cast<const void* const*>(nodes);
}

bool are_plain(const cudaGraphEdgeData* edges, std::size_t count) noexcept {
  return edges == nullptr || std::all_of(edges, edges + count, [](const cudaGraphEdgeData& edge) {
           return edge.from_port == 0 && edge.to_port == 0 && edge.type == cudaGraphDependencyTypeDefault;
         });
}

constexpr const char* kWithPorts = "with programmatic launches";

}  // namespace

extern "C" {

PH_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) noexcept {
  PH_CALL(cudaGraphNodeGetType);
  const GraphNode* found = find_graph_node(node);
  if (found == nullptr || type == nullptr) return returned(cudaErrorInvalidValue);
  *type = static_cast<cudaGraphNodeType>(found->kind);
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) noexcept {
  PH_CALL(cudaGraphDestroyNode);
  if (is_node_of_captured(node)) return refused("cudaGraphDestroyNode", kOnCaptured);
  return destroy_graph_node(node) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                               std::size_t count) noexcept {
  PH_CALL(cudaGraphAddDependencies);
  if (is_captured(graph)) return refused("cudaGraphAddDependencies", kOnCaptured);
  if (!are_plain(edges, count)) return refused("cudaGraphAddDependencies", kWithPorts);
  return find_graph(graph) != nullptr && add_dependencies(graph, handles(from), handles(to), count)
             ? cudaSuccess
             : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                                  std::size_t count) noexcept {
  PH_CALL(cudaGraphRemoveDependencies);
  if (is_captured(graph)) return refused("cudaGraphRemoveDependencies", kOnCaptured);
  if (!are_plain(edges, count)) return refused("cudaGraphRemoveDependencies", kWithPorts);
  return find_graph(graph) != nullptr && remove_dependencies(graph, handles(from), handles(to), count)
             ? cudaSuccess
             : returned(cudaErrorInvalidValue);
}

PH_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) noexcept {
  PH_CALL(cudaGraphGetRootNodes);
  const auto graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  give_nodes(root_nodes(*graph), nodes, count);
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
  give_nodes(first, from, count);
  give_nodes(second, to, &room);
  if (edges != nullptr && from != nullptr) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                   cudaGraphEdgeData* edges, std::size_t* count) noexcept {
  PH_CALL(cudaGraphNodeGetDependencies);
  const GraphNode* found = find_graph_node(node);
  if (found == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  give_nodes(found->dependencies, dependencies, count);
  if (edges != nullptr && dependencies != nullptr) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return cudaSuccess;
}

PH_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                                     cudaGraphEdgeData* edges, std::size_t* count) noexcept {
  PH_CALL(cudaGraphNodeGetDependentNodes);
  if (find_graph_node(node) == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  give_nodes(dependents_of(node), dependents, count);
  if (edges != nullptr && dependents != nullptr) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return cudaSuccess;
}

}  // extern "C"
