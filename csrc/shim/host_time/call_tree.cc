#include "shim/host_time/call_tree.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace ph {

// Never destroyed.
struct CallNode {
  CountedFunction* function = nullptr;
  std::size_t depth = 0;
  CallNode* next = nullptr;  // of those that the same node has called
  std::atomic<CallNode*> called{nullptr};
  LoopSum charged;  // ns
};

namespace {

// What takes a smaller part of all host time counts for its caller: boxes of a flame graph have to be seen.
constexpr Nanoseconds kSmallestPart = 500;
// A program may call itself ever deeper, and in ever other ways: then what is called counts for its caller.
constexpr std::size_t kDeepest = 200;
constexpr std::size_t kMostNodes = 100'000;

CallNode root;
std::mutex making;
std::size_t made = 0;

CallNode* find(const CallNode& caller, const CountedFunction* function) noexcept {
  CallNode* one = caller.called.load(std::memory_order_acquire);
  while (one != nullptr && one->function != function) one = one->next;
  return one;
}

CallNode* find_or_make(CallNode& caller, CountedFunction* function) noexcept {
  if (CallNode* const found = find(caller, function)) return found;
  if (caller.depth == kDeepest) return &caller;
  const std::lock_guard lock(making);
  if (CallNode* const found = find(caller, function)) return found;
  if (made == kMostNodes) return &caller;
  ++made;
  auto* const node = new CallNode;
  node->function = function;
  node->depth = caller.depth + 1;
  node->next = caller.called.load(std::memory_order_relaxed);
  caller.called.store(node, std::memory_order_release);
  return node;
}

// As deep as Python calls, but only where nothing was charged yet.
CallNode* node_of(OpenCall* call) noexcept {
  if (call == nullptr) return &root;
  if (call->node == nullptr) call->node = find_or_make(*node_of(call->caller), call->function);
  return call->node;
}

// A node whose small ones were added to it, and what it and all that it called were charged.
struct Told {
  std::string name;
  Nanoseconds own_ns = 0;
  Nanoseconds whole_ns = 0;
  std::vector<Told> called;
};

Nanoseconds whole_of(const CallNode& node) noexcept {
  Nanoseconds sum_ns = node.charged.value();
  for (const CallNode* one = node.called.load(std::memory_order_acquire); one != nullptr; one = one->next)
    sum_ns += whole_of(*one);
  return sum_ns;
}

Told told_of(const CallNode& node, Nanoseconds least_ns) {
  Told told;
  if (node.function != nullptr) told.name = node.function->name;
  told.own_ns = node.charged.value();
  told.whole_ns = told.own_ns;
  for (const CallNode* one = node.called.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    const Nanoseconds inner_ns = whole_of(*one);
    told.whole_ns += inner_ns;
    if (inner_ns < least_ns || inner_ns == 0) told.own_ns += inner_ns;
    else told.called.push_back(told_of(*one, least_ns));
  }
  std::sort(told.called.begin(), told.called.end(), [](const Told& a, const Told& b) {
    return a.whole_ns != b.whole_ns ? a.whole_ns > b.whole_ns : a.name < b.name;
  });
  return told;
}

void end_first_iteration(CallNode& node) noexcept {
  node.charged.end_first_iteration();
  for (CallNode* one = node.called.load(std::memory_order_acquire); one != nullptr; one = one->next)
    end_first_iteration(*one);
}

void list(const Told& told, std::int64_t caller,
          std::vector<std::tuple<std::int64_t, std::string, std::int64_t>>& all) {
  for (const Told& one : told.called) {
    all.emplace_back(caller, one.name, one.own_ns);
    list(one, static_cast<std::int64_t>(all.size()), all);
  }
}

}  // namespace

void charge_call_node(OpenCall* call, Nanoseconds spent_ns) noexcept { node_of(call)->charged.add(spent_ns); }

void end_first_iteration_of_calls() noexcept { end_first_iteration(root); }

Nanoseconds charged_without_function() noexcept { return root.charged.value(); }

std::vector<std::tuple<std::int64_t, std::string, std::int64_t>> told_stacks() {
  std::vector<std::tuple<std::int64_t, std::string, std::int64_t>> all;
  list(told_of(root, whole_of(root) / kSmallestPart), 0, all);
  return all;
}

}  // namespace ph
