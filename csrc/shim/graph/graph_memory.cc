// Memory that the nodes of graphs allocate.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "shim/core/addresses.h"
#include "shim/graph/graph_nodes.h"

namespace ph {

namespace {

std::mutex mutex;
struct Allocated {
  int device;
  std::uint64_t serial;  // addresses are used again, serials are not
};
auto& allocated = *new std::unordered_map<const void*, Allocated>;
std::uint64_t allocations = 0;
GraphMemory memories[kMaxDevices];

void* take(int device, std::size_t bytes, std::uint64_t& serial) noexcept {
  void* pointer = allocate_device(device, bytes);
  if (pointer == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  serial = ++allocations;
  allocated[pointer] = {device, serial};
  GraphMemory& memory = memories[device];
  memory.used_bytes += bytes;
  memory.high_bytes = std::max(memory.high_bytes, memory.used_bytes);
  return pointer;
}

// Nothing, if a reset of the device has freed it since.
void give(void* pointer, std::uint64_t serial, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex);
    const auto entry = allocated.find(pointer);
    if (entry == allocated.end() || entry->second.serial != serial) return;
    memories[entry->second.device].used_bytes -= bytes;
    allocated.erase(entry);
  }
  free_device(pointer);
}

}  // namespace

void* allocate_for_graph(const void* handle, int device, std::size_t bytes) noexcept {
  const auto graph = find_graph(handle);
  std::uint64_t serial = 0;
  void* pointer = graph != nullptr ? take(device, bytes, serial) : nullptr;
  if (pointer == nullptr) return nullptr;
  graph->kept.emplace_back(pointer, [serial, bytes](void* memory) { give(memory, serial, bytes); });
  return pointer;
}

void forget_graph_memory(int device) noexcept {
  const std::lock_guard lock(mutex);
  std::erase_if(allocated, [device](const auto& entry) { return entry.second.device == device; });
  memories[device] = {};
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
