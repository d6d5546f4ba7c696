// Memory that the nodes of graphs allocate.
#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "shim/core/addresses.h"
#include "shim/graph/graph_nodes.h"

namespace ph {

namespace {

std::mutex mutex;
auto& allocated = *new std::unordered_set<const void*>;
GraphMemory memories[kMaxDevices];

void* take(int device, std::size_t bytes) noexcept {
  void* pointer = allocate_device(device, bytes);
  if (pointer == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  allocated.insert(pointer);
  GraphMemory& memory = memories[device];
  memory.used_bytes += bytes;
  memory.high_bytes = std::max(memory.high_bytes, memory.used_bytes);
  return pointer;
}

void give(void* pointer, int device, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex);
    allocated.erase(pointer);
    memories[device].used_bytes -= bytes;
  }
  free_device(pointer);
}

}  // namespace

void* allocate_for_graph(const void* handle, int device, std::size_t bytes) noexcept {
  const auto graph = find_graph(handle);
  void* pointer = graph != nullptr ? take(device, bytes) : nullptr;
  if (pointer == nullptr) return nullptr;
  graph->kept.emplace_back(pointer, [device, bytes](void* memory) { give(memory, device, bytes); });
  return pointer;
}

bool is_graph_memory(const void* pointer) noexcept {
  const std::lock_guard lock(mutex);
  return allocated.contains(pointer);
}

GraphMemory graph_memory(int device) noexcept {
  const std::lock_guard lock(mutex);
  return memories[device];
}

void reset_graph_memory_high(int device) noexcept {
  const std::lock_guard lock(mutex);
  memories[device].high_bytes = memories[device].used_bytes;
}

}  // namespace ph
