#include "shim/values/kept_addresses.h"

#include <atomic>
#include <mutex>

#include "shim/values/known_ranges.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Never destroyed: the program's static destructors still free memory.
struct Kept {
  std::mutex mutex;
  KnownRanges blocks;
  KnownRanges known;  // parts of them
};
Kept& kept = *new Kept;
std::atomic<bool> any_kept{false};

}  // namespace

void keep_addresses(const std::vector<Extent>& blocks) noexcept {
  const std::lock_guard lock(kept.mutex);
  for (const Extent& block : blocks) {
    if (!kept.blocks.covers(block.pointer(), block.bytes())) kept.blocks.add(block.pointer(), block.bytes());
  }
  any_kept.store(!kept.blocks.empty(), std::memory_order_relaxed);
}

void keep_numbers(const void* numbers, std::size_t bytes) noexcept {
  std::vector<Extent> blocks;
  each_device_pointer(static_cast<const char*>(numbers), bytes, [&blocks](const void* pointer) {
    const bool is_there = !blocks.empty() && blocks.back().holds(reinterpret_cast<std::uintptr_t>(pointer));
    if (const Extent block = is_there ? Extent{} : extent_of(pointer); !block.empty()) blocks.push_back(block);
  });
  if (blocks.empty()) return;
  keep_addresses(blocks);
  for (const Extent& block : blocks) {
    each_expected(block.pointer(), block.bytes(),
                  [](std::uintptr_t from, std::size_t part) { note_known(reinterpret_cast<const void*>(from), part); });
  }
}

void drop_addresses(const void* pointer, std::size_t bytes) noexcept {
  if (!any_kept.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(kept.mutex);
  kept.blocks.remove(pointer, bytes);
  kept.known.remove(pointer, bytes);
  any_kept.store(!kept.blocks.empty(), std::memory_order_relaxed);
}

void note_known(const void* pointer, std::size_t bytes) noexcept {
  if (!any_kept.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(kept.mutex);
  kept.blocks.each_in(pointer, bytes, [](std::uintptr_t from, std::size_t part) {
    kept.known.add(reinterpret_cast<const void*>(from), part);
  });
}

std::vector<Extent> take_known_of_kept() noexcept {
  std::vector<Extent> found;
  if (!any_kept.load(std::memory_order_relaxed)) return found;
  const std::lock_guard lock(kept.mutex);
  kept.known.each_in(nullptr, ~std::size_t{0},
                     [&found](std::uintptr_t from, std::size_t part) { found.push_back({from, from + part}); });
  kept.known = {};
  return found;
}

}  // namespace ph
