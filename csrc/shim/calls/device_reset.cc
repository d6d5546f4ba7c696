#include "shim/calls/device_reset.h"

#include <mutex>
#include <vector>

#include "shim/core/device.h"
#include "shim/graph/graph_nodes.h"
#include "shim/waiting/host_waits.h"

namespace ph::calls {

namespace {

using Forget = void (*)(int device) noexcept;

// Made at the first use: other libraries' static objects may come before ours.
struct Keepers {
  std::mutex mutex;
  std::vector<Forget> forget;
};
Keepers& keepers() noexcept {
  static auto& made = *new Keepers;
  return made;
}

}  // namespace

bool at_device_reset(Forget forget) noexcept {
  const std::lock_guard lock(keepers().mutex);
  keepers().forget.push_back(forget);
  return true;
}

void reset_device(int device) noexcept {
  if (!has_context(device)) return;
  wait_device(device);
  destroy_streams_and_events(device);
  forget_graph_memory(device);
  {
    const std::lock_guard lock(keepers().mutex);
    for (const Forget forget : keepers().forget) forget(device);
  }
  release_context(device);
}

}  // namespace ph::calls
