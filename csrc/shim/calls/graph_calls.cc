#include "shim/calls/graph_calls.h"

#include <algorithm>

#include "shim/launch/work.h"
#include "shim/streams/copies.h"

namespace ph::calls {

namespace {

Status valid(bool done) noexcept { return done ? Status::Success : Status::InvalidValue; }

bool is_mode(int mode) noexcept { return mode >= 0 && mode <= static_cast<int>(CaptureMode::Relaxed); }

}  // namespace

Status begin_capture(void* handle, int mode) noexcept {
  const StreamRef stream = resolve_stream(handle);
  if (!stream.valid) return Status::InvalidHandle;
  return is_mode(mode) ? status_of(ph::begin_capture(stream, static_cast<CaptureMode>(mode))) : Status::InvalidValue;
}

Status end_capture(void* handle, void** graph) noexcept {
  const StreamRef stream = resolve_stream(handle);
  if (!stream.valid) return Status::InvalidHandle;
  return graph != nullptr ? status_of(ph::end_capture(stream, graph)) : Status::InvalidValue;
}

Status find_capture(void* handle, bool has_place, CaptureInfo& info) noexcept {
  const StreamRef stream = resolve_stream(handle);
  if (!stream.valid) return Status::InvalidHandle;
  if (!has_place) return Status::InvalidValue;
  // The legacy default stream cannot be captured, and asking about it during a capture breaks that.
  if (stream.id == 0) {
    if (const Status status = status_of(check_work(stream)); status != Status::Success) return status;
  }
  info = capture_info(stream);
  return Status::Success;
}

Status exchange_mode(int& mode) noexcept {
  if (!is_mode(mode)) return Status::InvalidValue;
  mode = static_cast<int>(exchange_capture_mode(static_cast<CaptureMode>(mode)));
  return Status::Success;
}

Status create_graph(void** graph, unsigned flags) noexcept {
  if (graph == nullptr || flags != 0) return Status::InvalidValue;
  *graph = create_built_graph();
  return *graph != nullptr ? Status::Success : Status::OutOfMemory;
}

Status destroy_graph(const void* graph) noexcept { return valid(ph::destroy_graph(graph)); }

// Flags say how memory nodes are freed, where the graph is launched from and with what priority: we have none of these.
Status instantiate(void** exec, const void* graph, unsigned long long flags) noexcept {
  constexpr unsigned long long kAutoFreeOnLaunch = 1, kUpload = 2, kUseNodePriority = 8;
  constexpr unsigned long long kFlags = kAutoFreeOnLaunch | kUpload | kUseNodePriority;
  if (exec == nullptr || (flags & ~kFlags) != 0 || find_graph(graph) == nullptr) return Status::InvalidValue;
  *exec = instantiate_graph(graph);
  return valid(*exec != nullptr);  // else nodes wait for each other
}

Status destroy_exec(const void* exec) noexcept { return valid(destroy_graph_exec(exec)); }

Status launch_graph(const void* exec, void* handle) noexcept {
  const StreamRef stream = resolve_stream(handle);
  if (!stream.valid) return Status::InvalidHandle;
  if (const Status status = status_of(check_work(stream)); status != Status::Success) return status;
  if (capture_info(stream).status != CaptureStatus::None) return Status::IntoCapture;
  return valid(ph::launch_graph(exec, stream));
}

Status update_exec(const void* exec, const void* graph, int& result) noexcept {
  constexpr int kError = 1, kTopologyChanged = 2;
  switch (update_graph_exec(exec, graph)) {
    case GraphUpdate::Done: return Status::Success;
    case GraphUpdate::Different: result = kTopologyChanged; return Status::ExecUpdateFailure;
    case GraphUpdate::NoSuchHandle: break;
  }
  result = kError;
  return Status::InvalidValue;
}

void give_nodes(const GraphNodes& all, void** nodes, std::size_t& count) noexcept {
  for (std::size_t i = 0; nodes != nullptr && i < count; ++i) nodes[i] = i < all.size() ? all[i] : nullptr;
  count = nodes != nullptr ? std::min(count, all.size()) : all.size();
}

Status graph_nodes(const void* handle, void** nodes, std::size_t* count) noexcept {
  const auto graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return Status::InvalidValue;
  give_nodes(graph->nodes, nodes, *count);
  return Status::Success;
}

Status node_kind(const void* node, NodeKind& kind) noexcept {
  const GraphNode* found = find_graph_node(node);
  if (found != nullptr) kind = found->kind;
  return valid(found != nullptr);
}

Status destroy_node(const void* node) noexcept {
  return is_node_of_captured(node) ? Status::OnCaptured : valid(destroy_graph_node(node));
}

Status add_edges(const void* graph, const void* const* from, const void* const* to, std::size_t count,
                 bool are_plain) noexcept {
  if (is_captured(graph)) return Status::OnCaptured;
  if (!are_plain) return Status::WithPorts;
  return valid(find_graph(graph) != nullptr && add_dependencies(graph, from, to, count));
}

Status remove_edges(const void* graph, const void* const* from, const void* const* to, std::size_t count,
                    bool are_plain) noexcept {
  if (is_captured(graph)) return Status::OnCaptured;
  if (!are_plain) return Status::WithPorts;
  return valid(find_graph(graph) != nullptr && remove_dependencies(graph, from, to, count));
}

Status add_node(const Place& place, NodeKind kind, GraphWork work) noexcept {
  if (place.node == nullptr) return Status::InvalidValue;
  if (is_captured(place.graph)) return Status::OnCaptured;
  *place.node = add_graph_node(place.graph, kind, place.dependencies, place.count, std::move(work));
  return valid(*place.node != nullptr);
}

Status set_work(const void* node, NodeKind kind, GraphWork work) noexcept {
  return is_node_of_captured(node) ? Status::OnCaptured : valid(set_node_work(node, kind, std::move(work)));
}

Status set_exec_work(const void* exec, const void* node, NodeKind kind, GraphWork work) noexcept {
  return is_node_of_captured(node) ? Status::OnCaptured : valid(ph::set_exec_work(exec, node, kind, std::move(work)));
}

Status add_event_node(const Place& place, NodeKind kind, void* event) noexcept {
  if (!resolve_event(event).valid) return Status::InvalidValue;
  const GraphWork work = capture_apart([kind, event](StreamRef stream) {
    capture_work(stream, kind, [kind, event](StreamRef launched) {
      kind == NodeKind::EventRecord ? static_cast<void>(ph::record_event(event, launched))
                                    : stream_wait_event(launched, resolve_event(event));
    });
  });
  return add_node(place, kind, work);
}

Status add_child_node(const Place& place, const void* child) noexcept {
  const auto inner = find_graph(child);
  GraphWork work = inner != nullptr ? launchable(inner) : nullptr;
  if (work == nullptr || child == place.graph) return Status::InvalidValue;
  return add_node(place, NodeKind::Child, work);
}

Status make_host(GraphWork& work, void (*function)(void*), void* data) noexcept {
  if (function == nullptr) return Status::InvalidValue;
  work = capture_apart([=](StreamRef stream) { launch_host_function(stream, [=] { function(data); }); });
  return Status::Success;
}

Status make_fill(GraphWork& work, const Fill& of) noexcept {
  if (of.element_bytes != 1 && of.element_bytes != 2 && of.element_bytes != 4) return Status::InvalidValue;
  return make_work(work, [&of](StreamRef stream) {
    const Rows rows{.pitch = of.pitch, .width = of.width, .height = of.height};
    if (!can_fill_rows(of.pointer, of.element_bytes, rows)) return Status::InvalidValue;
    fill_rows(of.pointer, of.value, of.element_bytes, rows, stream);
    return Status::Success;
  });
}

}  // namespace ph::calls
