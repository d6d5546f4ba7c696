// CUDA graphs: what was captured, in its order, and how a launch issues it again. docs/decisions/graphs.md has the why.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "shim/core/device.h"

namespace ph {

// What a launch does beside its records: values of tensors, collectives with a new sequence number, events of the
// program. Gets the stream that stands for the captured one.
struct GraphEffect {
  std::function<void(StreamRef)> run;
};
// A place in a branch that other branches wait for.
struct GraphMark {
  std::uint32_t number;
};
struct GraphWait {
  std::uint32_t mark;
};

using GraphStep = std::variant<Record, GraphEffect, GraphMark, GraphWait>;

struct GraphAction {
  std::uint32_t branch;  // of Graph::branches
  GraphStep what;
};

// Handles, as cudaGraphNode_t.
using GraphNodes = std::vector<void*>;

// The values are those of cudaGraphNodeType, which CUgraphNodeType shares.
enum class NodeKind : int {
  Kernel = 0,
  Copy = 1,
  Fill = 2,
  Host = 3,
  Child = 4,
  Empty = 5,
  EventWait = 6,
  EventRecord = 7,
  Allocate = 10,
  Free = 11,
};

struct Graph;

struct GraphNode {
  NodeKind kind = NodeKind::Empty;
  GraphNodes dependencies{};
  const void* graph = nullptr;  // the handle of the one that it belongs to
  std::shared_ptr<const Graph> work{};  // null: it does nothing, or it was captured and stands in the graph's actions
};

struct Graph {
  std::vector<StreamRef> branches;  // the streams that were captured; the first is where the capture began
  std::vector<GraphAction> actions;
  std::uint32_t marks = 0;
  GraphNodes nodes;  // as the vendor counts them
  bool is_built = false;  // node by node: the nodes have the work, and actions come with the layout (graph_nodes.h)
  std::vector<std::shared_ptr<void>> kept;  // objects of the program that live as long as the graph and its execs

  void add(std::size_t branch, GraphStep what);
};

// The nodes of a graph that was built node by node, as they were at some time.
using GraphSnapshot = std::vector<std::pair<const void*, GraphNode>>;

// A graph made ready for launches. Its first branch becomes the stream that it is launched into, the others streams of
// its own.
class GraphExec {
 public:
  GraphExec() = default;
  explicit GraphExec(std::shared_ptr<const Graph> graph, GraphSnapshot snapshot = {}) noexcept;

  void launch(StreamRef stream) noexcept;
  // False: the other has not the same nodes in the same order.
  bool update(std::shared_ptr<const Graph> graph, GraphSnapshot snapshot) noexcept;
  // Other work of the same kind for one node. False: no such node; that of a captured graph cannot be changed.
  bool set_work(const void* node, NodeKind kind, std::shared_ptr<const Graph> work) noexcept;
  void release() noexcept;

 private:
  std::shared_ptr<const Graph> graph_;
  GraphSnapshot snapshot_;  // empty: it was captured
  std::vector<void*> side_streams_;
};

// Handles, as cudaGraph_t, cudaGraphNode_t and cudaGraphExec_t. Null results: no such handle, or no more of them.
PH_EXPORT void* create_graph(std::shared_ptr<Graph> graph) noexcept;
PH_EXPORT std::shared_ptr<Graph> find_graph(const void* handle) noexcept;
PH_EXPORT bool destroy_graph(const void* handle) noexcept;  // and its nodes
PH_EXPORT void* create_graph_node(GraphNode node) noexcept;
PH_EXPORT GraphNode* find_graph_node(const void* node) noexcept;
PH_EXPORT bool forget_graph_node(const void* node) noexcept;  // the handle alone
// Null also where nodes wait for each other.
PH_EXPORT void* instantiate_graph(const void* graph) noexcept;
PH_EXPORT bool destroy_graph_exec(const void* handle) noexcept;
// Objects of the program with a count of references, as cudaUserObject_t. Who releases the last calls `destroy`.
PH_EXPORT void* create_user_object(void* object, void (*destroy)(void*), unsigned count) noexcept;
PH_EXPORT bool retain_user_object(const void* handle, unsigned count) noexcept;
PH_EXPORT bool release_user_object(const void* handle, unsigned count) noexcept;
// `moves`: the caller's references become the graph's.
PH_EXPORT bool keep_in_graph(const void* graph, const void* object, unsigned count, bool moves) noexcept;
PH_EXPORT bool drop_from_graph(const void* graph, const void* object, unsigned count) noexcept;

PH_EXPORT bool set_exec_work(const void* exec, const void* node, NodeKind kind,
                             std::shared_ptr<const Graph> work) noexcept;

enum class GraphUpdate { Done, Different, NoSuchHandle };
PH_EXPORT GraphUpdate update_graph_exec(const void* exec, const void* graph) noexcept;
PH_EXPORT bool launch_graph(const void* exec, StreamRef stream) noexcept;
PH_EXPORT bool is_graph_exec(const void* handle) noexcept;

}  // namespace ph
