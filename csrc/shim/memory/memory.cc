// Memory of the simulated GPUs: reserved host addresses, never backed until touched, and an account per device.
//
// Addresses are the same in every rank (a fixed range per device), so that a pointer in a record means the same
// thing to whoever replays it.
#include "shim/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include <sys/mman.h>

#include "shim/channel/rank.h"
#include "shim/core/addresses.h"
#include "shim/core/config.h"
#include "shim/core/failure.h"
#include "shim/core/visible_devices.h"
#include "shim/libc/framework.h"
#include "shim/memory/first_use.h"
#include "shim/memory/free_ranges.h"
#include "shim/memory/managed.h"
#include "shim/values/pytorch.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// The driver maps device memory in pages of 2 MiB; requests below half of one share a page. Assumed from observed
// cudaMemGetInfo differences, which change in steps of 2 MiB.
constexpr std::size_t kPageBytes = 2u << 20;
constexpr std::size_t kSmallBytes = 1u << 20;
constexpr std::size_t kSmallStepBytes = 64u << 10;

std::size_t charged_bytes(std::size_t bytes) noexcept {
  const std::size_t step = bytes >= kSmallBytes ? kPageBytes : kSmallStepBytes;
  return (bytes + step - 1) / step * step;
}

struct DeviceAccount {
  bool reserved = false;
  bool has_context = false;
  bool is_chosen = false;  // a context with nothing in it, of a process that is no rank yet
  std::size_t used_bytes = 0;
  FreeRanges free_addresses;
};

// Never destroyed: the program's static destructors still free memory.
std::mutex mutex;
auto& accounts = *new std::array<DeviceAccount, kMaxDevices>;
auto& allocations = *new std::map<std::uintptr_t, Allocation>;  // by base; device and pinned memory
// All memory that was ever pinned lies between them.
std::atomic<std::uintptr_t> pinned_begin{~std::uintptr_t{0}};
std::atomic<std::uintptr_t> pinned_end{0};
std::atomic<std::uintptr_t> device_end{kFirstDeviceAddress + 1};

std::size_t capacity_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(config().number("gpu.totalGlobalMem"));
  return bytes;
}

std::size_t context_bytes() noexcept { return static_cast<std::size_t>(config().number("gpu.context_bytes")); }

void record_memory(RecordKind kind, MemoryKind memory, int device, std::size_t bytes, std::uintptr_t pointer,
                   std::size_t used_bytes) noexcept {
  Record record{};
  record.kind = kind;
  record.device = static_cast<std::uint16_t>(std::max(device, 0));
  record.id = static_cast<std::uint32_t>(memory);
  record.arg[AllocArg::Bytes] = bytes;
  record.arg[AllocArg::Pointer] = pointer;
  record.arg[AllocArg::UsedBytes] = used_bytes;
  emit(record, kind == RecordKind::Alloc);
}

void record_out_of_memory(int device, std::size_t asked_bytes, std::size_t used_bytes) noexcept {
  Record record{};
  record.kind = RecordKind::OutOfMemory;
  record.device = static_cast<std::uint16_t>(device);
  record.arg[OutOfMemoryArg::Bytes] = asked_bytes;
  record.arg[OutOfMemoryArg::FreeBytes] = capacity_bytes() - used_bytes;
  record.arg[OutOfMemoryArg::UsedBytes] = used_bytes;
  emit(record, true);
}

void reserve_addresses(int device) {
  const std::uintptr_t base = kFirstDeviceAddress + static_cast<std::uintptr_t>(device) * kDeviceSpanBytes;
  void* mapped = mmap(reinterpret_cast<void*>(base), kDeviceSpanBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != reinterpret_cast<void*>(base)) {
    fail_internal("cannot reserve addresses for the simulated GPU; is a limit on virtual memory set (ulimit -v)?");
  }
  madvise(mapped, kDeviceSpanBytes, MADV_DONTDUMP);
  accounts[device].free_addresses.give(base, kDeviceSpanBytes);
  accounts[device].reserved = true;
}

// Called with the mutex held, as what follows.
void give_addresses(DeviceAccount& account, std::uintptr_t base, std::size_t bytes) {
  madvise(reinterpret_cast<void*>(base), bytes, MADV_DONTNEED);
  account.free_addresses.give(base, bytes);
}

// Null: no device with a context has these addresses.
DeviceAccount* account_of(std::uintptr_t base, std::size_t bytes) noexcept {
  if (base < kFirstDeviceAddress) return nullptr;
  const std::uintptr_t device = (base - kFirstDeviceAddress) / kDeviceSpanBytes;
  const std::uintptr_t left = kDeviceSpanBytes - (base - kFirstDeviceAddress) % kDeviceSpanBytes;
  return device < accounts.size() && bytes <= left && accounts[device].reserved ? &accounts[device] : nullptr;
}

// 0: there are none.
std::uintptr_t take_addresses(int device, std::size_t bytes) {
  FreeRanges& free_addresses = accounts[device].free_addresses;
  const std::uintptr_t first = kFirstDeviceAddress + static_cast<std::uintptr_t>(device) * kDeviceSpanBytes;
  const std::uintptr_t base = free_addresses.take(bytes, 1, first + kAvoidedBytes);
  return base != 0 ? base : free_addresses.take(bytes);
}

void add_allocation(const Allocation& allocation) {
  allocations[allocation.base] = allocation;
  device_end = std::max(device_end.load(), allocation.base + allocation.bytes);
}

// The allocation that holds `address`, or end.
auto allocation_at(std::uintptr_t address) {
  auto entry = allocations.upper_bound(address);
  if (entry == allocations.begin()) return allocations.end();
  --entry;
  return address < entry->first + entry->second.bytes ? entry : allocations.end();
}

// Whether all of a range may be used so: it lies in one allocation, or in mappings side by side.
bool has_access(const void* pointer, std::size_t bytes, Access access) noexcept {
  if (!is_device_pointer(pointer)) return pointer != nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex);
  auto entry = allocation_at(address);
  if (entry == allocations.end() || entry->second.access < access) return false;
  // No sum of the caller's numbers, which may be anything.
  std::size_t reached = entry->first + entry->second.bytes - address;
  while (reached < bytes) {
    const auto next = std::next(entry);
    const bool goes_on = next != allocations.end() && next->first == entry->first + entry->second.bytes &&
                         entry->second.mapped && next->second.mapped && next->second.access >= access;
    if (!goes_on) return false;
    reached += next->second.bytes;
    entry = next;
  }
  return true;
}

bool is_in_use(int device) noexcept {
  const std::lock_guard lock(mutex);
  return accounts[device].has_context;
}

// False: something begins there. Either kind is announced as the host's.
bool add_host_memory(void* pointer, std::size_t bytes, MemoryKind kind) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  {
    const std::lock_guard lock(mutex);
    if (!allocations.try_emplace(base, Allocation{base, bytes, -1, kind}).second) return false;
    pinned_begin = std::min(pinned_begin.load(), base);
    pinned_end = std::max(pinned_end.load(), base + bytes);
  }
  record_memory(RecordKind::Alloc, MemoryKind::PinnedHost, 0, bytes, base, 0);
  return true;
}

bool remove_host_memory(void* pointer, MemoryKind kind) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex);
    const auto entry = allocations.find(base);
    if (entry == allocations.end() || entry->second.device >= 0 || entry->second.kind != kind) return false;
    bytes = entry->second.bytes;
    allocations.erase(entry);
  }
  record_memory(RecordKind::Free, MemoryKind::PinnedHost, 0, bytes, base, 0);
  return true;
}

}  // namespace

void* allocate_device(int device, std::size_t bytes) noexcept {
  ensure_context(device);
  make_room(device, bytes < capacity_bytes() ? charged_bytes(bytes) : bytes);
  std::unique_lock lock(mutex);
  DeviceAccount& account = accounts[device];
  const std::size_t free_bytes = capacity_bytes() - account.used_bytes;
  // The first of the two: rounding up the size of a request beyond all memory may overflow.
  if (bytes > free_bytes || charged_bytes(bytes) > free_bytes) {
    const std::size_t used = account.used_bytes;
    lock.unlock();
    record_out_of_memory(device, bytes, used);
    return nullptr;
  }
  const std::size_t charged = charged_bytes(bytes);
  const std::uintptr_t base = take_addresses(device, charged);
  if (base == 0) fail_internal("the addresses of a simulated GPU are used up");
  account.used_bytes += charged;
  add_allocation({base, bytes, device, MemoryKind::Device});
  const std::size_t used = account.used_bytes;
  lock.unlock();
  record_memory(RecordKind::Alloc, MemoryKind::Device, device, charged, base, used);
  return reinterpret_cast<void*>(base);
}

bool free_device(void* pointer) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  Allocation freed;
  if (find_allocation(pointer, freed)) release_values(pointer, freed.bytes);
  std::unique_lock lock(mutex);
  const auto entry = allocations.find(base);
  if (entry == allocations.end() || entry->second.device < 0 || entry->second.mapped) return false;
  const int device = entry->second.device;
  const std::size_t charged = charged_bytes(entry->second.bytes);
  allocations.erase(entry);
  accounts[device].used_bytes -= charged;
  give_addresses(accounts[device], base, charged);
  const std::size_t used = accounts[device].used_bytes;
  lock.unlock();
  record_memory(RecordKind::Free, MemoryKind::Device, device, charged, base, used);
  return true;
}

void* allocate_pinned(std::size_t bytes, const void* caller) noexcept {
  void* pointer = nullptr;
  if (posix_memalign(&pointer, 4096, std::max<std::size_t>(bytes, 1)) != 0) return nullptr;
  register_pinned(pointer, bytes);
  if (caller != nullptr && is_frameworks_own(caller) && hears_of_tensors()) {
    const std::lock_guard lock(mutex);
    allocations[reinterpret_cast<std::uintptr_t>(pointer)].has_host_tensors = true;
  }
  return pointer;
}

bool free_pinned(void* pointer) noexcept {
  drain_values();  // copies that still write to it
  if (!unregister_pinned(pointer)) return false;
  std::free(pointer);
  return true;
}

bool register_pinned(void* pointer, std::size_t bytes) noexcept {
  return add_host_memory(pointer, bytes, MemoryKind::PinnedHost);
}
bool unregister_pinned(void* pointer) noexcept { return remove_host_memory(pointer, MemoryKind::PinnedHost); }

bool add_managed(void* pointer, std::size_t bytes) noexcept {
  return add_host_memory(pointer, bytes, MemoryKind::Managed);
}
bool remove_managed(void* pointer) noexcept { return remove_host_memory(pointer, MemoryKind::Managed); }

bool find_allocation(const void* pointer, Allocation& out) noexcept {
  const std::lock_guard lock(mutex);
  const auto entry = allocation_at(reinterpret_cast<std::uintptr_t>(pointer));
  if (entry == allocations.end()) return false;
  out = entry->second;
  return true;
}

bool has_host_tensors(const void* pointer) noexcept {
  Allocation allocation;
  return find_allocation(pointer, allocation) && allocation.has_host_tensors;
}

void show_to_device(const void* pointer) noexcept {
  if (!may_be_pinned(pointer)) return;
  const std::lock_guard lock(mutex);
  const auto entry = allocation_at(reinterpret_cast<std::uintptr_t>(pointer));
  if (entry != allocations.end()) entry->second.has_host_tensors = false;
}

bool is_in_use(std::uintptr_t begin, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex);
  const auto after = allocations.lower_bound(begin);
  return (after != allocations.end() && after->first - begin < bytes) || allocation_at(begin) != allocations.end();
}

bool any_pinned() noexcept { return pinned_end.load(std::memory_order_relaxed) != 0; }

bool is_readable(const void* pointer, std::size_t bytes) noexcept { return has_access(pointer, bytes, Access::Read); }
bool is_writable(const void* pointer, std::size_t bytes) noexcept {
  return has_access(pointer, bytes, Access::ReadWrite);
}

bool is_device_pointer(const void* pointer) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address >= kFirstDeviceAddress && address < kEndOfReservable;
}

DeviceAddresses device_addresses() noexcept {
  return {kFirstDeviceAddress, device_end.load(std::memory_order_relaxed)};
}

// A heap at low addresses may be pinned, and what lies above all devices.
bool may_be_pinned(const void* pointer) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return pinned_begin.load(std::memory_order_relaxed) <= address &&
         address < pinned_end.load(std::memory_order_relaxed) && !is_device_pointer(pointer);
}

bool take_memory(int device, std::size_t bytes, MemoryKind kind) noexcept {
  if (kind != MemoryKind::Managed) make_room(device, bytes);
  std::unique_lock lock(mutex);
  DeviceAccount& account = accounts[device];
  if (bytes > capacity_bytes() - account.used_bytes) {
    const std::size_t used = account.used_bytes;
    lock.unlock();
    record_out_of_memory(device, bytes, used);
    return false;
  }
  account.used_bytes += bytes;
  const std::size_t used = account.used_bytes;
  lock.unlock();
  record_memory(RecordKind::Alloc, kind, device, bytes, 0, used);
  return true;
}

void give_memory(int device, std::size_t bytes, MemoryKind kind) noexcept {
  std::unique_lock lock(mutex);
  accounts[device].used_bytes -= bytes;
  const std::size_t used = accounts[device].used_bytes;
  lock.unlock();
  record_memory(RecordKind::Free, kind, device, bytes, 0, used);
}

void memory_info(int device, std::size_t& free_bytes, std::size_t& total_bytes) noexcept {
  choose_context(device);
  const std::lock_guard lock(mutex);
  const DeviceAccount& account = accounts[device];
  const std::size_t used_bytes = account.has_context ? account.used_bytes : context_bytes();
  total_bytes = capacity_bytes();
  free_bytes = total_bytes - used_bytes;
}

bool take_range(std::uintptr_t base, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex);
  DeviceAccount* account = account_of(base, bytes);
  return account != nullptr && account->free_addresses.take_at(base, bytes);
}

bool give_range(std::uintptr_t base, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex);
  DeviceAccount* account = account_of(base, bytes);
  if (account != nullptr) give_addresses(*account, base, bytes);
  return account != nullptr;
}

void add_mapping(void* pointer, std::size_t bytes, int device) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex);
  add_allocation({base, bytes, device, MemoryKind::Device, true, Access::None});
}

void set_mapping_access(void* pointer, Access access) noexcept {
  const std::lock_guard lock(mutex);
  allocations[reinterpret_cast<std::uintptr_t>(pointer)].access = access;
}

void remove_mapping(void* pointer) noexcept {
  const std::lock_guard lock(mutex);
  allocations.erase(reinterpret_cast<std::uintptr_t>(pointer));
}

bool has_context(int device) noexcept {
  const std::lock_guard lock(mutex);
  return accounts[device].has_context || accounts[device].is_chosen;
}

void choose_context(int device) noexcept {
  if (attached() || !becomes_rank_by_use()) return ensure_context(device);
  const std::lock_guard lock(mutex);
  accounts[device].is_chosen = true;
}

void ensure_context(int device) noexcept {
  if (!is_in_use(device)) {
    visible_devices();  // read before the first record
    if (!attached()) begin_use(device);
  }
  {
    const std::lock_guard lock(mutex);
    if (accounts[device].has_context) return;
    accounts[device].has_context = true;
    if (!accounts[device].reserved) reserve_addresses(device);
  }
  if (!take_memory(device, context_bytes(), MemoryKind::Context)) {
    fail_internal("the GPU profile's context_bytes exceed its memory");
  }
}

void release_context(int device) noexcept {
  std::vector<void*> pointers;
  {
    const std::lock_guard lock(mutex);
    if (!accounts[device].has_context) return;
    for (const auto& [base, allocation] : allocations) {
      if (allocation.device == device && !allocation.mapped) pointers.push_back(reinterpret_cast<void*>(base));
    }
    accounts[device].has_context = accounts[device].is_chosen = false;
  }
  for (void* pointer : pointers) free_device(pointer);
  leave_device(device);
  give_memory(device, context_bytes(), MemoryKind::Context);
}

}  // namespace ph
