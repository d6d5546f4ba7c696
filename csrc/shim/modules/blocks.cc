// To know what was in use at the peak, nothing is copied when there is a new one: blocks have numbers, and those that were
// taken before it and given back after it are kept until there is a higher one.
#include "shim/modules/blocks.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shim/channel/hooks.h"
#include "shim/channel/rank.h"
#include "shim/modules/made_nodes.h"
#include "shim/modules/scope.h"

namespace ph::modules {

namespace {

struct Memory {
  std::unordered_map<std::uint64_t, Block> live;
  std::vector<Block> given_back;  // since the peak, of those that it had
  std::uint64_t in_use_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak = 0;  // the number of the block that made it
};

std::mutex mutex;  // guards all of this; never destroyed, for the program's static destructors still free memory
auto& memories = *new std::unordered_map<int, Memory>;
std::uint64_t taken = 0;

void take(Memory& memory, std::uint64_t address, std::uint64_t bytes, std::uint32_t scope) {
  memory.live[address] = {address, bytes, host_clock_ns(), ++taken, scope, kInUse, 0, 0};
  memory.in_use_bytes += bytes;
  if (memory.in_use_bytes <= memory.peak_bytes) return;
  memory.peak_bytes = memory.in_use_bytes;
  memory.peak = taken;
  memory.given_back.clear();
}

void give_back(Memory& memory, std::uint64_t address) {
  const auto found = memory.live.find(address);
  if (found == memory.live.end()) return;  // it was taken before modules were followed
  Block block = found->second;
  memory.live.erase(found);
  memory.in_use_bytes -= block.bytes;
  if (block.number > memory.peak) return;
  block.end_scope = current_scope();
  memory.given_back.push_back(block);
}

}  // namespace

void note_tensor_memory(const void* pointer, std::int64_t bytes, int device) noexcept {
  if (!are_followed()) return;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const std::uint32_t scope = bytes > 0 ? current_scope() : 0;
  const std::lock_guard lock(mutex);
  if (bytes > 0) {
    take(memories[device], address, static_cast<std::uint64_t>(bytes), scope);
  } else if (bytes < 0) {
    give_back(memories[device], address);
  }
}

}  // namespace ph::modules

// For phantora_py/rank/modules.py.
extern "C" {

PH_EXPORT std::uint64_t ph_memory_peak(int device) noexcept {
  const std::lock_guard lock(ph::modules::mutex);
  return ph::modules::memories[device].peak_bytes;
}

// What a block in use holds: kind, and of which module; where it has been marked for another, of what both are part of.
PH_EXPORT void ph_mark_memory(int device, std::uint64_t address, std::uint32_t kind, std::uint32_t module) noexcept {
  const std::lock_guard lock(ph::modules::mutex);
  auto& live = ph::modules::memories[device].live;
  const auto found = live.find(address);
  if (found == live.end()) return;
  ph::modules::Block& block = found->second;
  block.module = block.kind == 0 ? module : ph::modules::innermost_of_both(block.module, module);
  block.kind = kind;
}

// Up to `most` of the blocks that were in use at the peak; returns how many those were.
PH_EXPORT std::size_t ph_peak_blocks(int device, ph::modules::Block* out, std::size_t most) noexcept {
  const std::lock_guard lock(ph::modules::mutex);
  const auto& memory = ph::modules::memories[device];
  std::vector<ph::modules::Block> blocks = memory.given_back;
  for (const auto& [address, block] : memory.live) {
    if (block.number <= memory.peak) blocks.push_back(block);
  }
  std::sort(blocks.begin(), blocks.end(), [](const auto& one, const auto& other) { return one.number < other.number; });
  std::copy_n(blocks.begin(), std::min(most, blocks.size()), out);
  return blocks.size();
}

}  // extern "C"
