#include "shim/values/extents.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "shim/core/device.h"
#include "shim/modules/blocks.h"
#include "shim/values/kept_addresses.h"
#include "shim/values/pytorch.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Never destroyed: the program's static destructors still free memory.
std::mutex mutex;
auto& blocks = *new std::map<std::uintptr_t, std::uintptr_t>;  // in use: begin to end

struct Variable {
  const void* pointer;
  bool is_constant;
};
auto& variables = *new std::vector<Variable>;

std::uintptr_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

Extent region_of(const void* pointer) noexcept {
  Allocation allocation;
  if (!is_device_pointer(pointer) || !find_allocation(pointer, allocation)) return {};
  Extent region{allocation.base, allocation.base + allocation.bytes};
  if (!allocation.mapped) return region;
  Allocation beside;
  const auto is_beside = [&beside](std::uintptr_t address) {
    return find_allocation(reinterpret_cast<const void*>(address), beside) && beside.mapped;
  };
  while (is_beside(region.begin - 1)) region.begin = beside.base;
  while (is_beside(region.end)) region.end = beside.base + beside.bytes;
  return region;
}

Extent extent_of(const void* pointer) noexcept {
  if (!is_device_pointer(pointer)) return {};
  const std::uintptr_t address = address_of(pointer);
  Extent between{0, ~std::uintptr_t{0}};
  {
    const std::lock_guard lock(mutex);
    const auto next = blocks.upper_bound(address);
    if (next != blocks.end()) between.end = next->first;
    if (next != blocks.begin()) {
      const auto& [begin, end] = *std::prev(next);
      if (address < end) return {begin, end};
      between.begin = end;
    }
  }
  const Extent region = region_of(pointer);
  if (region.empty()) return {};
  return {std::max(region.begin, between.begin), std::min(region.end, between.end)};
}

void note_block(const void* pointer, std::int64_t bytes) noexcept {
  if (!is_device_pointer(pointer) || bytes == 0) return;
  {
    const std::lock_guard lock(mutex);
    if (bytes > 0) {
      blocks[address_of(pointer)] = address_of(pointer) + static_cast<std::uintptr_t>(bytes);
      return;
    }
    blocks.erase(address_of(pointer));
  }
  drop_addresses(pointer, static_cast<std::size_t>(-bytes));
  forget_freed(pointer, static_cast<std::size_t>(-bytes));
}

void note_variable(const void* pointer, bool is_constant) noexcept {
  const std::lock_guard lock(mutex);
  variables.push_back({pointer, is_constant});
}

void add_variables(std::vector<const void*>& written, std::vector<const void*>& read) noexcept {
  const std::lock_guard lock(mutex);
  for (const Variable& variable : variables) (variable.is_constant ? read : written).push_back(variable.pointer);
}

}  // namespace ph

// c10::DeviceType::CUDA
static constexpr std::uint16_t kCuda = 1;

// c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device): PyTorch's allocators call it at every
// allocation and release, whether somebody profiles or not. The last argument is two bytes, type and index.
// Source: c10/core/Allocator.h and c10/cuda/CUDACachingAllocator.cpp, the same from 2.5 to 2.15.
extern "C" PH_EXPORT void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void* pointer, std::int64_t bytes,
                                                                                std::size_t allocated_bytes,
                                                                                std::size_t reserved_bytes,
                                                                                std::uint16_t device) noexcept {
  ph::note_block(pointer, bytes);
  if ((device & 0xff) == kCuda) ph::modules::note_tensor_memory(pointer, bytes, device >> 8);
  using Report = void (*)(void*, std::int64_t, std::size_t, std::size_t, std::uint16_t);
  static const auto report = reinterpret_cast<Report>(
      ph::pytorch_function("libc10.so", "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  if (report != nullptr) report(pointer, bytes, allocated_bytes, reserved_bytes, device);
}
