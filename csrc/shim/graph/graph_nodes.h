// CUDA graphs that a program builds node by node, instead of capturing a stream.
//
// What a node does is captured apart, from the same calls that would do it, and is a little graph of its own. For its
// launches a built graph is laid out over branches: a node goes on with the branch of one that it depends on, and waits
// for the others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "shim/graph/graph.h"

namespace ph {

using GraphWork = std::shared_ptr<const Graph>;

PH_EXPORT void* create_built_graph() noexcept;
// What the calls of `issue` on the stream that it gets would do; nothing of it is done.
PH_EXPORT GraphWork capture_apart(const std::function<void(StreamRef)>& issue);
// The same for calls that may fail: what `issue` returns. Then there is no work.
template <typename Issue>
auto make_work(GraphWork& work, Issue issue) noexcept {
  decltype(issue(StreamRef{})) result{};
  work = capture_apart([&](StreamRef stream) { result = issue(stream); });
  return result;
}
// What a launch of the graph does, as it is now; null where nodes wait for each other.
PH_EXPORT GraphWork launchable(const std::shared_ptr<Graph>& graph);
GraphSnapshot snapshot_of(const Graph& graph);  // empty: it was captured
// Null where nodes wait for each other. `kept`: objects that the graph keeps.
GraphWork lay_out(const GraphSnapshot& nodes, const std::vector<std::shared_ptr<void>>& kept);

// Nodes of a captured graph keep what they do in the capture's own form, so that they cannot be changed.
PH_EXPORT bool is_captured(const void* graph) noexcept;
PH_EXPORT bool is_node_of_captured(const void* node) noexcept;

// Null: the graph or a dependency does not exist, or a dependency is of another graph or there twice.
PH_EXPORT void* add_graph_node(const void* graph, NodeKind kind, const void* const* dependencies, std::size_t count,
                               GraphWork work) noexcept;
PH_EXPORT bool destroy_graph_node(const void* node) noexcept;
// Other work of the same kind. False: no such node.
PH_EXPORT bool set_node_work(const void* node, NodeKind kind, GraphWork work) noexcept;
// Each of `to` waits, or does not wait any more, for the one of `from` at its place.
PH_EXPORT bool add_dependencies(const void* graph, const void* const* from, const void* const* to,
                                std::size_t count) noexcept;
PH_EXPORT bool remove_dependencies(const void* graph, const void* const* from, const void* const* to,
                                   std::size_t count) noexcept;
PH_EXPORT GraphNodes root_nodes(const Graph& graph);
PH_EXPORT GraphNodes dependents_of(const void* node);

// Memory that a graph's nodes allocate. Its address holds for all launches. It is counted from here on until neither the
// graph nor an executable of it is left and it has been freed: by a node, or by the program outside the graph, which may
// do so before or after the graph is gone. Null: no such graph, or no memory. Source: CUDA C++ Programming Guide, "Graph
// Memory Nodes".
PH_EXPORT void* allocate_for_graph(const void* graph, int device, std::size_t bytes) noexcept;
PH_EXPORT bool free_graph_memory(const void* pointer) noexcept;  // false: it is none
void forget_graph_memory(int device) noexcept;  // a reset frees it
struct GraphMemory {
  std::size_t used_bytes = 0;
  std::size_t high_bytes = 0;
};
PH_EXPORT GraphMemory graph_memory(int device) noexcept;
PH_EXPORT void reset_graph_memory_high(int device) noexcept;

}  // namespace ph
