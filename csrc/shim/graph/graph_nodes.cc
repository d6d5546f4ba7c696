#include "shim/graph/graph_nodes.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace ph {

namespace {

constexpr std::size_t kNone = ~std::size_t{0};

// The nodes with numbers instead of handles, dependencies first. Fewer than there are: some wait for each other.
struct Order {
  std::vector<std::size_t> nodes;
  std::vector<std::vector<std::size_t>> dependencies;  // by node
};

Order order_of(const GraphSnapshot& snapshot) {
  std::unordered_map<const void*, std::size_t> numbers;
  for (std::size_t i = 0; i < snapshot.size(); ++i) numbers[snapshot[i].first] = i;
  Order order{{}, std::vector<std::vector<std::size_t>>(snapshot.size())};
  std::vector<std::vector<std::size_t>> dependents(snapshot.size());
  std::vector<std::size_t> missing(snapshot.size());
  for (std::size_t i = 0; i < snapshot.size(); ++i) {
    for (const void* dependency : snapshot[i].second.dependencies) {
      order.dependencies[i].push_back(numbers.at(dependency));
      dependents[numbers.at(dependency)].push_back(i);
    }
    missing[i] = order.dependencies[i].size();
    if (missing[i] == 0) order.nodes.push_back(i);
  }
  for (std::size_t next = 0; next < order.nodes.size(); ++next) {
    for (const std::size_t dependent : dependents[order.nodes[next]]) {
      if (--missing[dependent] == 0) order.nodes.push_back(dependent);
    }
  }
  return order;
}

// Which branch each node is on, and the last node of each branch.
struct Branches {
  std::vector<std::size_t> of_node;
  std::vector<std::size_t> last;
};

Branches branch(const Order& order) {
  Branches branches{std::vector<std::size_t>(order.dependencies.size()), {}};
  for (const std::size_t node : order.nodes) {
    std::size_t chosen = kNone;
    for (const std::size_t dependency : order.dependencies[node]) {
      const std::size_t its = branches.of_node[dependency];
      if (branches.last[its] == dependency) chosen = std::min(chosen, its);
    }
    if (chosen == kNone) {
      chosen = branches.last.size();
      branches.last.emplace_back();
    }
    branches.of_node[node] = chosen;
    branches.last[chosen] = node;
  }
  return branches;
}

class Layout {
 public:
  Layout(const GraphSnapshot& snapshot, const Order& order)
      : snapshot_(snapshot), order_(order), branches_(branch(order)), marks_(snapshot.size(), kNone) {}

  std::shared_ptr<Graph> make() {
    const StreamRef first{.device = static_cast<std::uint16_t>(current_device())};
    graph_->branches.assign(std::max<std::size_t>(1, branches_.last.size()), first);
    begin_branches();
    std::vector<bool> leads(snapshot_.size());  // others wait for it, from other branches
    for (const std::size_t node : order_.nodes) {
      for (const std::size_t dependency : order_.dependencies[node]) {
        if (!is_beside(node, dependency)) leads[dependency] = true;
      }
    }
    for (std::size_t i = 1; i < branches_.last.size(); ++i) leads[branches_.last[i]] = true;
    for (const std::size_t node : order_.nodes) add_node(node, leads[node]);
    for (std::size_t i = 1; i < branches_.last.size(); ++i) wait_for(branches_.last[i], 0);
    return graph_;
  }

 private:
  bool is_beside(std::size_t node, std::size_t other) const noexcept {
    return branches_.of_node[node] == branches_.of_node[other];
  }

  // No branch starts before the launch's stream is there.
  void begin_branches() {
    if (branches_.last.size() < 2) return;
    const GraphMark start{graph_->marks++};
    graph_->add(0, start);
    for (std::size_t i = 1; i < branches_.last.size(); ++i) graph_->add(i, GraphWait{start.number});
  }

  void wait_for(std::size_t node, std::size_t branch) {
    graph_->add(branch, GraphWait{static_cast<std::uint32_t>(marks_[node])});
  }

  void add_node(std::size_t node, bool leads) {
    const std::size_t branch = branches_.of_node[node];
    for (const std::size_t dependency : order_.dependencies[node]) {
      if (!is_beside(node, dependency)) wait_for(dependency, branch);
    }
    if (const GraphWork& work = snapshot_[node].second.work; work != nullptr) add_work(*work, branch);
    if (!leads) return;
    marks_[node] = graph_->marks++;
    graph_->add(branch, GraphMark{static_cast<std::uint32_t>(marks_[node])});
  }

  // A graph within this one: its first branch is ours, its others come beside those that we have.
  void add_work(const Graph& work, std::size_t branch) {
    const std::uint32_t first_mark = graph_->marks;
    const std::size_t first_branch = graph_->branches.size() - 1;
    graph_->marks += work.marks;
    graph_->branches.insert(graph_->branches.end(), work.branches.begin() + 1, work.branches.end());
    for (GraphAction action : work.actions) {
      action.branch = static_cast<std::uint32_t>(action.branch == 0 ? branch : first_branch + action.branch);
      if (auto* mark = std::get_if<GraphMark>(&action.what)) mark->number += first_mark;
      if (auto* wait = std::get_if<GraphWait>(&action.what)) wait->mark += first_mark;
      graph_->actions.push_back(std::move(action));
    }
  }

  const GraphSnapshot& snapshot_;
  const Order& order_;
  Branches branches_;
  std::vector<std::size_t> marks_;  // by node
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
};

bool has(const GraphNodes& nodes, const void* node) noexcept {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Whether each of `from` and `to` is a node of the graph.
bool are_nodes(const void* graph, const void* const* from, const void* const* to, std::size_t count) noexcept {
  if (count > 0 && (from == nullptr || to == nullptr)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const GraphNode* first = find_graph_node(from[i]);
    const GraphNode* second = find_graph_node(to[i]);
    if (first == nullptr || second == nullptr || first == second) return false;
    if (first->graph != graph || second->graph != graph) return false;
  }
  return true;
}

}  // namespace

GraphWork lay_out(const GraphSnapshot& nodes, const std::vector<std::shared_ptr<void>>& kept) {
  const Order order = order_of(nodes);
  if (order.nodes.size() != nodes.size()) return nullptr;
  std::shared_ptr<Graph> graph = Layout(nodes, order).make();
  graph->kept = kept;
  return graph;
}

GraphSnapshot snapshot_of(const Graph& graph) {
  GraphSnapshot snapshot;
  if (!graph.is_built) return snapshot;
  for (const void* node : graph.nodes) snapshot.emplace_back(node, *find_graph_node(node));
  return snapshot;
}

GraphWork launchable(const std::shared_ptr<Graph>& graph) {
  return graph->is_built ? lay_out(snapshot_of(*graph), graph->kept) : graph;
}

void* create_built_graph() noexcept {
  auto graph = std::make_shared<Graph>();
  graph->is_built = true;
  return create_graph(std::move(graph));
}

void* add_graph_node(const void* handle, NodeKind kind, const void* const* dependencies, std::size_t count,
                     GraphWork work) noexcept {
  const auto graph = find_graph(handle);
  if (graph == nullptr || (count > 0 && dependencies == nullptr)) return nullptr;
  GraphNode node{.kind = kind, .graph = handle, .work = std::move(work)};
  for (std::size_t i = 0; i < count; ++i) {
    const GraphNode* dependency = find_graph_node(dependencies[i]);
    if (dependency == nullptr || dependency->graph != handle || has(node.dependencies, dependencies[i])) return nullptr;
    node.dependencies.push_back(const_cast<void*>(dependencies[i]));
  }
  void* added = create_graph_node(std::move(node));
  if (added != nullptr) graph->nodes.push_back(added);
  return added;
}

bool destroy_graph_node(const void* handle) noexcept {
  const GraphNode* node = find_graph_node(handle);
  if (node == nullptr) return false;
  const auto graph = find_graph(node->graph);
  for (const void* other : graph->nodes) std::erase(find_graph_node(other)->dependencies, handle);
  std::erase(graph->nodes, handle);
  return forget_graph_node(handle);
}

bool set_node_work(const void* handle, NodeKind kind, GraphWork work) noexcept {
  GraphNode* node = find_graph_node(handle);
  if (node == nullptr || node->kind != kind) return false;
  node->work = std::move(work);
  return true;
}

bool add_dependencies(const void* graph, const void* const* from, const void* const* to, std::size_t count) noexcept {
  if (!are_nodes(graph, from, to, count)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (has(find_graph_node(to[i])->dependencies, from[i])) return false;
  }
  for (std::size_t i = 0; i < count; ++i) find_graph_node(to[i])->dependencies.push_back(const_cast<void*>(from[i]));
  return true;
}

bool remove_dependencies(const void* graph, const void* const* from, const void* const* to,
                         std::size_t count) noexcept {
  if (!are_nodes(graph, from, to, count)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!has(find_graph_node(to[i])->dependencies, from[i])) return false;
  }
  for (std::size_t i = 0; i < count; ++i) std::erase(find_graph_node(to[i])->dependencies, from[i]);
  return true;
}

bool is_captured(const void* handle) noexcept {
  const auto graph = find_graph(handle);
  return graph != nullptr && !graph->is_built;
}

bool is_node_of_captured(const void* handle) noexcept {
  const GraphNode* node = find_graph_node(handle);
  return node != nullptr && is_captured(node->graph);
}

GraphNodes root_nodes(const Graph& graph) {
  GraphNodes roots;
  for (void* node : graph.nodes) {
    if (find_graph_node(node)->dependencies.empty()) roots.push_back(node);
  }
  return roots;
}

GraphNodes dependents_of(const void* handle) {
  GraphNodes dependents;
  const GraphNode* node = find_graph_node(handle);
  const auto graph = node != nullptr ? find_graph(node->graph) : nullptr;
  if (graph == nullptr) return dependents;
  for (void* other : graph->nodes) {
    if (has(find_graph_node(other)->dependencies, handle)) dependents.push_back(other);
  }
  return dependents;
}

}  // namespace ph
