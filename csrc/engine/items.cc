#include "engine/items.h"

#include <algorithm>

namespace ph {

Nanoseconds Items::oldest_issue_ns() const {
  std::vector<bool> live(items_.slots(), true);
  for (const Index freed : items_.free_slots()) live[freed] = false;
  Nanoseconds oldest_ns = kNever;
  for (Index item = 0; item < items_.slots(); ++item)
    if (live[item] && items_[item].stream != kNone) oldest_ns = std::min(oldest_ns, items_[item].issue_ns);
  return oldest_ns;
}

std::vector<Index> Items::running_before(Index item) const {
  std::vector<bool> live(items_.slots(), true);
  for (const Index freed : items_.free_slots()) live[freed] = false;
  std::vector<std::vector<Index>> before(items_.slots());
  for (Index from = 0; from < items_.slots(); ++from)
    if (live[from])
      for (Index link = items_[from].first_dependent; link != kNone; link = dependents_[link].next)
        before[dependents_[link].item].push_back(from);

  std::vector<Index> running;
  std::vector<bool> seen(items_.slots(), false);
  std::vector<Index> todo = {item};
  while (!todo.empty()) {
    const Index at = todo.back();
    todo.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    if (at != item && items_[at].unmet == 0) running.push_back(at);
    todo.insert(todo.end(), before[at].begin(), before[at].end());
  }
  return running;
}

}  // namespace ph
