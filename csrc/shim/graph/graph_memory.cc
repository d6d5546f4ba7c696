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
  std::size_t bytes;
  bool is_freed = false;   // within a graph or outside
  bool is_orphan = false;  // the graph is gone
};
auto& allocated = *new std::unordered_map<const void*, Allocated>;
std::uint64_t allocations = 0;
GraphMemory memories[kMaxDevices];

void* take(int device, std::size_t bytes, std::uint64_t& serial) noexcept {
  void* pointer = allocate_device(device, bytes);
  if (pointer == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  serial = ++allocations;
  allocated[pointer] = {device, serial, bytes};
  GraphMemory& memory = memories[device];
  memory.used_bytes += bytes;
  memory.high_bytes = std::max(memory.high_bytes, memory.used_bytes);
  return pointer;
}

// What neither a graph nor the program needs any more. Called with the lock held.
void give_if_unused(const void* pointer) noexcept {
  const auto entry = allocated.find(pointer);
  if (!entry->second.is_freed || !entry->second.is_orphan) return;
  memories[entry->second.device].used_bytes -= entry->second.bytes;
  allocated.erase(entry);
  free_device(const_cast<void*>(pointer));
}

// The graph and its executables are gone. Nothing, if a reset of the device has freed the memory since.
void orphan(const void* pointer, std::uint64_t serial) noexcept {
  const std::lock_guard lock(mutex);
  const auto entry = allocated.find(pointer);
  if (entry == allocated.end() || entry->second.serial != serial) return;
  entry->second.is_orphan = true;
  give_if_unused(pointer);
}

}  // namespace

void* allocate_for_graph(const void* handle, int device, std::size_t bytes) noexcept {
  const auto graph = find_graph(handle);
  std::uint64_t serial = 0;
  void* pointer = graph != nullptr ? take(device, bytes, serial) : nullptr;
  if (pointer == nullptr) return nullptr;
  graph->kept.emplace_back(pointer, [serial](const void* memory) { orphan(memory, serial); });
  return pointer;
}

void forget_graph_memory(int device) noexcept {
  const std::lock_guard lock(mutex);
  std::erase_if(allocated, [device](const auto& entry) { return entry.second.device == device; });
  memories[device] = {};
}

bool free_graph_memory(const void* pointer) noexcept {
  const std::lock_guard lock(mutex);
  const auto entry = allocated.find(pointer);
  if (entry == allocated.end()) return false;
  entry->second.is_freed = true;
  give_if_unused(pointer);
  return true;
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
