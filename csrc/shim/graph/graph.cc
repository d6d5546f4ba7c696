#include "shim/graph/graph.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/core/handles.h"
#include "shim/graph/graph_nodes.h"

namespace ph {

namespace {

constexpr std::size_t kRecordsAtOnce = 256;  // far less than the ring holds

constinit HandleTable<std::shared_ptr<Graph>> graphs(HandleTag::Graph);
constinit HandleTable<GraphNode> nodes(HandleTag::GraphNode);
constinit HandleTable<GraphExec> execs(HandleTag::GraphExec);

struct UserObject {
  std::shared_ptr<void> object;
  std::uint64_t count = 0;  // references that are not a graph's
};
constinit HandleTable<UserObject> user_objects(HandleTag::UserObject);
std::mutex keeping;  // guards counts, and what graphs keep

// Issues the actions of one launch.
class Launch {
 public:
  Launch(const Graph& graph, std::vector<StreamRef> streams) : streams_(std::move(streams)), instances_(graph.marks) {}

  void issue(const GraphAction& action) {
    stream_ = streams_[action.branch];
    std::visit([this](const auto& what) { add(what); }, action.what);
  }
  void flush() {
    if (!records_.empty()) emit(records_, false);
    records_.clear();
  }

 private:
  void add(Record record) {
    record.device = stream_.device;
    record.stream = stream_.id;
    records_.push_back(record);
    if (records_.size() == kRecordsAtOnce) flush();
  }
  void add(const GraphEffect& effect) {
    flush();
    effect.run(stream_);
  }
  void add(GraphMark mark) {
    flush();
    instances_[mark.number] = record_instance(stream_);
  }
  void add(GraphWait wait) {
    Record record{};
    record.kind = RecordKind::StreamWait;
    record.arg[StreamWaitArg::Instance] = instances_[wait.mark];
    add(record);
  }

  std::vector<StreamRef> streams_;  // by branch
  std::vector<std::uint64_t> instances_;  // by mark
  std::vector<Record> records_;
  StreamRef stream_{};
};

bool same_node(const GraphAction& a, const GraphAction& b) noexcept {
  if (a.branch != b.branch || a.what.index() != b.what.index()) return false;
  const auto* record = std::get_if<Record>(&a.what);
  return record == nullptr || record->kind == std::get<Record>(b.what).kind;
}

}  // namespace

void Graph::add(std::size_t branch, GraphStep what) {
  actions.push_back({static_cast<std::uint32_t>(branch), std::move(what)});
}

GraphExec::GraphExec(std::shared_ptr<const Graph> graph, GraphSnapshot snapshot) noexcept
    : graph_(std::move(graph)), snapshot_(std::move(snapshot)) {
  for (std::size_t i = 1; i < graph_->branches.size(); ++i) {
    side_streams_.push_back(create_stream(graph_->branches[i].device, true, graph_->branches[i].priority));
  }
}

void GraphExec::launch(StreamRef stream) noexcept {
  enter_queue(stream);
  std::vector<StreamRef> streams{stream};
  for (const void* side : side_streams_) streams.push_back(resolve_stream(side));
  Launch launch(*graph_, std::move(streams));
  for (const GraphAction& action : graph_->actions) launch.issue(action);
  launch.flush();
}

bool GraphExec::update(std::shared_ptr<const Graph> graph, GraphSnapshot snapshot) noexcept {
  if (graph->branches.size() != graph_->branches.size() ||
      !std::equal(graph->actions.begin(), graph->actions.end(), graph_->actions.begin(), graph_->actions.end(),
                  same_node)) {
    return false;
  }
  graph_ = std::move(graph);
  snapshot_ = std::move(snapshot);
  return true;
}

bool GraphExec::set_work(const void* node, NodeKind kind, std::shared_ptr<const Graph> work) noexcept {
  const auto found =
      std::find_if(snapshot_.begin(), snapshot_.end(), [node](const auto& one) { return one.first == node; });
  if (found == snapshot_.end() || found->second.kind != kind) return false;
  found->second.work = std::move(work);
  const auto kept = graph_->kept;
  graph_ = lay_out(snapshot_, kept);
  return true;
}

void GraphExec::release() noexcept {
  for (void* side : side_streams_) destroy_stream(side);
}

void* create_graph(std::shared_ptr<Graph> graph) noexcept { return graphs.create(std::move(graph)); }

std::shared_ptr<Graph> find_graph(const void* handle) noexcept {
  const std::shared_ptr<Graph>* graph = graphs.get(handle);
  return graph != nullptr ? *graph : nullptr;
}

bool destroy_graph(const void* handle) noexcept {
  const auto graph = find_graph(handle);
  if (graph == nullptr) return false;
  for (const void* node : graph->nodes) nodes.destroy(node);
  return graphs.destroy(handle);
}

void* create_graph_node(GraphNode node) noexcept { return nodes.create(std::move(node)); }

GraphNode* find_graph_node(const void* node) noexcept { return nodes.get(node); }

bool forget_graph_node(const void* node) noexcept { return nodes.destroy(node); }

void* instantiate_graph(const void* handle) noexcept {
  const auto graph = find_graph(handle);
  if (graph == nullptr) return nullptr;
  auto laid_out = launchable(graph);
  return laid_out != nullptr ? execs.create(GraphExec(std::move(laid_out), snapshot_of(*graph))) : nullptr;
}

bool set_exec_work(const void* handle, const void* node, NodeKind kind, std::shared_ptr<const Graph> work) noexcept {
  GraphExec* exec = execs.get(handle);
  return exec != nullptr && exec->set_work(node, kind, std::move(work));
}

bool destroy_graph_exec(const void* handle) noexcept {
  GraphExec* exec = execs.get(handle);
  if (exec == nullptr) return false;
  exec->release();
  const GraphExec last_reference = std::move(*exec);  // what the graph keeps is let go without the table's lock
  return execs.destroy(handle);
}

GraphUpdate update_graph_exec(const void* exec_handle, const void* graph_handle) noexcept {
  GraphExec* exec = execs.get(exec_handle);
  const auto graph = find_graph(graph_handle);
  if (exec == nullptr || graph == nullptr) return GraphUpdate::NoSuchHandle;
  auto laid_out = launchable(graph);
  const bool is_done = laid_out != nullptr && exec->update(std::move(laid_out), snapshot_of(*graph));
  return is_done ? GraphUpdate::Done : GraphUpdate::Different;
}

void* create_user_object(void* object, void (*destroy)(void*), unsigned count) noexcept {
  return user_objects.create({std::shared_ptr<void>(object, destroy), count});
}

bool retain_user_object(const void* handle, unsigned count) noexcept {
  const std::lock_guard lock(keeping);
  UserObject* object = user_objects.get(handle);
  if (object == nullptr) return false;
  object->count += count;
  return true;
}

bool release_user_object(const void* handle, unsigned count) noexcept {
  std::shared_ptr<void> last_reference;
  const std::lock_guard lock(keeping);
  UserObject* object = user_objects.get(handle);
  if (object == nullptr || object->count < count) return false;
  last_reference = object->object;
  object->count -= count;
  if (object->count == 0) user_objects.destroy(handle);
  return true;
}

bool keep_in_graph(const void* graph_handle, const void* handle, unsigned count, bool moves) noexcept {
  const auto graph = find_graph(graph_handle);
  {
    const std::lock_guard lock(keeping);
    const UserObject* object = user_objects.get(handle);
    if (graph == nullptr || object == nullptr) return false;
    graph->kept.insert(graph->kept.end(), count, object->object);
  }
  return !moves || release_user_object(handle, count);
}

bool drop_from_graph(const void* graph_handle, const void* handle, unsigned count) noexcept {
  const auto graph = find_graph(graph_handle);
  std::vector<std::shared_ptr<void>> last_references;
  const std::lock_guard lock(keeping);
  const UserObject* object = user_objects.get(handle);
  if (graph == nullptr || object == nullptr) return false;
  for (; count > 0; --count) {
    const auto kept = std::find(graph->kept.begin(), graph->kept.end(), object->object);
    if (kept == graph->kept.end()) return false;
    last_references.push_back(std::move(*kept));
    graph->kept.erase(kept);
  }
  return true;
}

bool is_graph_exec(const void* handle) noexcept { return execs.get(handle) != nullptr; }

bool launch_graph(const void* handle, StreamRef stream) noexcept {
  GraphExec* exec = execs.get(handle);
  if (exec == nullptr) return false;
  exec->launch(stream);
  return true;
}

}  // namespace ph
