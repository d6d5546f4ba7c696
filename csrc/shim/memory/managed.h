// Managed memory (cudaMallocManaged): host memory under one address for the host and all devices, and where its pages are
// (docs/decisions/managed-memory.md). Pages are counted in blocks of 2 MiB.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "shim/core/device.h"

namespace ph {

// Beside the number of a device, as cudaCpuDeviceId and cudaInvalidDeviceId.
constexpr int kHostPlace = -1;
constexpr int kNoPlace = -2;  // nobody's memory yet, but for what the host has touched

PH_EXPORT void* allocate_managed(std::size_t bytes) noexcept;  // nullptr: no addresses are left
PH_EXPORT bool free_managed(void* pointer) noexcept;  // false: not the base of managed memory
// False: no managed memory is there. A range check, for hot paths.
PH_EXPORT bool may_be_managed(const void* pointer) noexcept;
// Whether all of the range is one piece of managed memory.
PH_EXPORT bool is_managed(const void* pointer, std::size_t bytes = 1) noexcept;

// What the program has said of a range; of blocks that differ nothing.
struct ManagedFacts {
  int owner;  // the device that was current when it was allocated
  int preferred;  // a device, kHostPlace or kNoPlace
  int prefetched;  // likewise, the last time
  bool read_mostly;
  std::vector<int> accessed_by;
};
PH_EXPORT ManagedFacts managed_facts(const void* pointer, std::size_t bytes) noexcept;

// As cudaMemoryAdvise and CUmem_advise.
enum class Advice : int {
  ReadMostly = 1,
  NotReadMostly = 2,
  Preferred = 3,
  NotPreferred = 4,
  AccessedBy = 5,
  NotAccessedBy = 6,
};
PH_EXPORT void advise_managed(const void* pointer, std::size_t bytes, Advice advice, int place) noexcept;

// Device or host, by the block that holds it; the host if it is not managed.
PH_EXPORT int managed_place(const void* pointer) noexcept;

// What follows moves pages. A move is a copy on the stream, at the rate of one from or to pinned memory.
PH_EXPORT void prefetch_managed(const void* pointer, std::size_t bytes, int place, StreamRef stream) noexcept;

struct ManagedOperand {
  const void* pointer;
  std::size_t bytes;  // most of them: what lies behind the end of the memory does not count
};
// Work on the stream is about to use these. Returns how many of their bytes stay on the host.
PH_EXPORT std::size_t use_managed(std::span<const ManagedOperand> operands, StreamRef stream) noexcept;

// Somebody wants so much of a device: managed memory makes room for it, the least recently used first.
void make_room(int device, std::size_t bytes) noexcept;
// The device's context goes.
void leave_device(int device) noexcept;

}  // namespace ph
