#include "shim/modules/made_nodes.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ph::modules {

namespace {

// Of a thread, what begins to be made at a node's number; older ones are forgotten (assumed: more than a step has).
constexpr std::size_t kMostBegins = std::size_t{1} << 17;

struct Begin {
  std::uint64_t sequence;
  std::uint32_t module;
};

using Made = std::deque<Begin>;

std::mutex mutex;  // guards all of this; never destroyed, for threads still work while the process ends
auto& by_thread = *new std::unordered_map<std::uint64_t, Made>;
auto& outer_of = *new std::vector<std::uint32_t>;

// These are called with the mutex held.
std::uint32_t outer(std::uint32_t module) noexcept { return module < outer_of.size() ? outer_of[module] : 0; }

std::size_t depth(std::uint32_t module) noexcept {
  std::size_t depth = 0;
  for (; module != 0; module = outer(module)) ++depth;
  return depth;
}

std::uint32_t shared_outer(std::uint32_t one, std::uint32_t other) noexcept {
  std::size_t one_depth = depth(one);
  std::size_t other_depth = depth(other);
  for (; one != other; one_depth > other_depth ? --one_depth : --other_depth) {
    (one_depth > other_depth ? one : other) = outer(one_depth > other_depth ? one : other);
  }
  return one;
}

void begin(Made& made, std::uint64_t sequence, std::uint32_t module) {
  if (!made.empty() && made.back().module == module) return;
  made.push_back({sequence, module});
  if (made.size() > kMostBegins) made.pop_front();
}

// Of the calling thread, to need no lock where nothing changes: its last work, and the module of its last `Begin`.
thread_local std::uint64_t next_before = 0;
thread_local std::uint32_t module_before = 0;
thread_local std::uint32_t begun = 0;

}  // namespace

void note_forward(Node next, std::uint32_t module) noexcept {
  const std::uint64_t before = std::exchange(next_before, next.sequence);
  const std::uint32_t last = std::exchange(module_before, module);
  if (next.sequence == before || next.sequence == kNoSequence || (module == last && module == begun)) return;
  begun = module;
  const std::lock_guard lock(mutex);
  Made& made = by_thread[next.thread];
  if (next.sequence - 1 > before) begin(made, before, shared_outer(last, module));
  begin(made, next.sequence - 1, module);
}

std::uint32_t maker_of(Node node) noexcept {
  const std::lock_guard lock(mutex);
  const auto made = by_thread.find(node.thread);
  if (made == by_thread.end()) return 0;
  const Made& begins = made->second;
  const auto after = std::upper_bound(begins.begin(), begins.end(), node.sequence,
                                      [](std::uint64_t value, const Begin& one) { return value < one.sequence; });
  return after == begins.begin() ? 0 : std::prev(after)->module;
}

std::uint32_t innermost_of_both(std::uint32_t one, std::uint32_t other) noexcept {
  const std::lock_guard lock(mutex);
  return shared_outer(one, other);
}

bool has_made_nodes(Node next) noexcept { return next.sequence != kNoSequence && next.sequence != next_before; }

void set_outer(std::uint32_t module, std::uint32_t outer) noexcept {
  const std::lock_guard lock(mutex);
  if (outer_of.size() <= module) outer_of.resize(module + 1);
  outer_of[module] = outer;
}

}  // namespace ph::modules
