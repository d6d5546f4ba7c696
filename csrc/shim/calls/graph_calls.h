// The calls about captures and graphs that the runtime API and the driver API both have, each written once.
//
// A graph's handle is cudaGraph_t and CUgraph, and so on; enumerations and flags have the same values in both APIs.
// Source: CUDA runtime API and CUDA driver API, "Stream Management" and "Graph Management".
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shim/calls/stream_calls.h"
#include "shim/graph/graph_nodes.h"

namespace ph::calls {

PH_EXPORT Status begin_capture(void* stream, int mode) noexcept;
PH_EXPORT Status end_capture(void* stream, void** graph) noexcept;
// What is known of the capture that a stream takes part in. `has_place`: there is a place for the answer.
PH_EXPORT Status find_capture(void* stream, bool has_place, CaptureInfo& info) noexcept;
PH_EXPORT Status exchange_mode(int& mode) noexcept;

PH_EXPORT Status create_graph(void** graph, unsigned flags) noexcept;
PH_EXPORT Status destroy_graph(const void* graph) noexcept;
PH_EXPORT Status instantiate(void** exec, const void* graph, unsigned long long flags) noexcept;
PH_EXPORT Status destroy_exec(const void* exec) noexcept;
PH_EXPORT Status launch_graph(const void* exec, void* stream) noexcept;
// `result`: of cudaGraphExecUpdateResult.
PH_EXPORT Status update_exec(const void* exec, const void* graph, int& result) noexcept;

// As many as there is room for; the rest of the room is filled with null. Source: runtime API, cudaGraphGetNodes.
PH_EXPORT void give_nodes(const GraphNodes& all, void** nodes, std::size_t& count) noexcept;
PH_EXPORT Status graph_nodes(const void* graph, void** nodes, std::size_t* count) noexcept;
PH_EXPORT Status node_kind(const void* node, NodeKind& kind) noexcept;
// Writes a file of Graphviz' with the kinds of nodes and what waits for what.
PH_EXPORT Status print_graph(const void* graph, const char* path) noexcept;
PH_EXPORT Status destroy_node(const void* node) noexcept;
// `are_plain`: see below.
PH_EXPORT Status add_edges(const void* graph, const void* const* from, const void* const* to, std::size_t count,
                           bool are_plain) noexcept;
PH_EXPORT Status remove_edges(const void* graph, const void* const* from, const void* const* to, std::size_t count,
                              bool are_plain) noexcept;

// Where in a graph a node is added.
struct Place {
  void** node;
  const void* graph;
  const void* const* dependencies;
  std::size_t count;
};
PH_EXPORT Status add_node(const Place& place, NodeKind kind, GraphWork work) noexcept;
PH_EXPORT Status set_work(const void* node, NodeKind kind, GraphWork work) noexcept;
PH_EXPORT Status set_exec_work(const void* exec, const void* node, NodeKind kind, GraphWork work) noexcept;
PH_EXPORT Status add_event_node(const Place& place, NodeKind kind, void* event) noexcept;
// The child is copied: what becomes of it afterwards does not concern the node.
PH_EXPORT Status add_child_node(const Place& place, const void* child) noexcept;
PH_EXPORT Status make_host(GraphWork& work, void (*function)(void*), void* data) noexcept;

// `height` rows of `width` elements.
struct Fill {
  void* pointer;
  std::size_t pitch;
  unsigned value;
  unsigned element_bytes;
  std::size_t width, height;
};
PH_EXPORT Status make_fill(GraphWork& work, const Fill& of) noexcept;

template <class Handle>
void** handle_place(Handle* handle) noexcept {
  return reinterpret_cast<void**>(handle);
}

template <class Node>
const void* const* handles(const Node* nodes) noexcept {
  return reinterpret_cast<const void* const*>(nodes);
}

template <class Node, class Graph>
Place place_of(Node* node, Graph graph, const Node* dependencies, std::size_t count) noexcept {
  return {handle_place(node), graph, handles(dependencies), count};
}

// Edges that say no more than that a node waits for the end of another. Of no edges: all are.
template <class Edge>
bool are_plain(const Edge* edges, std::size_t count) noexcept {
  for (std::size_t i = 0; edges != nullptr && i < count; ++i) {
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0) return false;
  }
  return true;
}

// Good until the next call of this thread.
template <class Edge>
const Edge* plain_edges(std::size_t count) noexcept {
  thread_local std::vector<Edge> edges;
  edges.assign(count, {});
  return edges.data();
}

// Where a call wants to be told of a capture; all but the status may be null.
template <class CaptureState, class Id, class Graph, class Node, class Edge>
Status tell_capture(void* stream, CaptureState* status, Id* id, Graph* graph, const Node** dependencies,
                    const Edge** edges, std::size_t* count) noexcept {
  CaptureInfo info;
  if (const Status found = find_capture(stream, status != nullptr, info); found != Status::Success) return found;
  *status = static_cast<CaptureState>(info.status);
  if (id != nullptr) *id = info.id;
  if (info.status != CaptureStatus::Active) return Status::Success;
  if (dependencies != nullptr) *dependencies = reinterpret_cast<const Node*>(info.dependencies->data());
  if (edges != nullptr) *edges = plain_edges<Edge>(info.dependencies->size());
  if (count != nullptr) *count = info.dependencies->size();
  if (graph != nullptr) *graph = static_cast<Graph>(info.graph);
  return Status::Success;
}

template <class CaptureState>
Status tell_status(void* stream, CaptureState* status) noexcept {
  CaptureInfo info;
  const Status found = find_capture(stream, status != nullptr, info);
  if (found == Status::Success) *status = static_cast<CaptureState>(info.status);
  return found;
}

template <class Mode>
Status exchange_mode(Mode* mode) noexcept {
  if (mode == nullptr) return Status::InvalidValue;
  int value = static_cast<int>(*mode);
  const Status status = exchange_mode(value);
  *mode = static_cast<Mode>(value);
  return status;
}

template <class Info>
Status update_exec(const void* exec, const void* graph, Info* info) noexcept {
  if (info == nullptr) return Status::InvalidValue;
  *info = {};
  int result = 0;
  const Status status = update_exec(exec, graph, result);
  info->result = static_cast<decltype(info->result)>(result);
  return status;
}

template <class Kind>
Status tell_kind(const void* node, Kind* kind) noexcept {
  NodeKind found{};
  if (kind == nullptr || node_kind(node, found) != Status::Success) return Status::InvalidValue;
  *kind = static_cast<Kind>(found);
  return Status::Success;
}

template <class Parameters>
Status make_host(GraphWork& work, const Parameters* of) noexcept {
  return of != nullptr ? make_host(work, of->fn, of->userData) : Status::InvalidValue;
}

// `pointer`: as CUDA's two APIs write an address.
template <class Parameters, class Pointer>
Status make_fill(GraphWork& work, const Parameters* of, Pointer Parameters::* pointer) noexcept {
  if (of == nullptr) return Status::InvalidValue;
  void* begin = nullptr;
  if constexpr (std::is_pointer_v<Pointer>) begin = of->*pointer;
  else begin = reinterpret_cast<void*>(of->*pointer);
  return make_fill(work, {begin, of->pitch, of->value, of->elementSize, of->width, of->height});
}

}  // namespace ph::calls
