// Virtual memory management: addresses, physical memory and the mapping between them, each on its own.
//
// Physical memory is an amount taken from the device's account; addresses are host addresses that nothing backs, the
// lowest free ones behind the devices' own ranges. A hint that names free addresses is followed, also into a device's
// own range: there a GPU executor that is simulated itself lays memory (docs/decisions/kernels-by-name.md).
#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include <sys/mman.h>

#include "shim/core/addresses.h"
#include "shim/core/handles.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/virtual_memory.h"
#include "shim/memory/free_ranges.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::driver;

namespace {

constexpr std::size_t kGranularityBytes = 2u << 20;  // as cuMemGetAllocationGranularity answers on current GPUs

struct Physical {
  CUmemAllocationProp properties{};
  std::size_t bytes = 0;
  int references = 0;  // the program's handle, and each mapping
};

struct Mapping {
  std::size_t bytes;
  CUmemGenericAllocationHandle physical;
  bool has_values = true;
  std::array<CUmemAccess_flags, kMaxDevices> access{};  // by device; a new mapping gives none
};
using Mappings = std::map<CUdeviceptr, Mapping>;

constinit HandleTable<Physical> physicals(HandleTag::Physical);
std::mutex mutex;  // guards what follows, and the reference counts
std::uintptr_t end_of_addresses = kFirstReservable;  // those below are the program's, or free
auto& free_addresses = *new FreeRanges;
auto& reservations = *new std::map<CUdeviceptr, std::size_t>;
auto& mappings = *new Mappings;

void* key(CUmemGenericAllocationHandle handle) noexcept { return reinterpret_cast<void*>(handle); }

bool is_whole(std::size_t bytes) noexcept { return bytes > 0 && bytes % kGranularityBytes == 0; }

// ---- addresses; with the mutex held ----------------------------------------------------------------------

// Makes all addresses up to `end` the process's own.
bool extend_addresses(std::uintptr_t end) noexcept {
  const std::size_t bytes = end - end_of_addresses;
  void* reserved = mmap(reinterpret_cast<void*>(end_of_addresses), bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved != reinterpret_cast<void*>(end_of_addresses)) return false;
  madvise(reserved, bytes, MADV_DONTDUMP);
  free_addresses.give(end_of_addresses, bytes);
  end_of_addresses = end;
  return true;
}

bool take_hinted(CUdeviceptr hint, std::size_t bytes) noexcept {
  if (take_range(hint, bytes) || free_addresses.take_at(hint, bytes)) return true;
  const bool is_next = hint == end_of_addresses && bytes <= kEndOfReservable - hint;
  return is_next && extend_addresses(hint + bytes) && free_addresses.take_at(hint, bytes);
}

// Zero: there are none left.
CUdeviceptr take_addresses(std::size_t bytes, std::size_t step) noexcept {
  if (const std::uintptr_t base = free_addresses.take(bytes, step)) return base;
  if (step > kEndOfReservable - end_of_addresses) return 0;
  const std::uintptr_t base = (end_of_addresses + step - 1) / step * step;
  if (bytes > kEndOfReservable - base || !extend_addresses(base + bytes)) return 0;
  return free_addresses.take_at(base, bytes) ? base : 0;
}

void give_addresses(CUdeviceptr base, std::size_t bytes) noexcept {
  if (!give_range(base, bytes)) free_addresses.give(base, bytes);
}

auto reservation_at(CUdeviceptr address) noexcept {
  auto entry = reservations.upper_bound(address);
  if (entry == reservations.begin()) return reservations.end();
  --entry;
  return address - entry->first < entry->second ? entry : reservations.end();
}

bool is_reserved(CUdeviceptr address, std::size_t bytes) noexcept {
  const auto entry = reservation_at(address);
  return entry != reservations.end() && bytes <= entry->first + entry->second - address;
}

// ---- mappings; with the mutex held -----------------------------------------------------------------------

// The first mapping that ends after `address`.
Mappings::iterator first_after(CUdeviceptr address) noexcept {
  auto entry = mappings.upper_bound(address);
  if (entry != mappings.begin() && address - std::prev(entry)->first < std::prev(entry)->second.bytes) --entry;
  return entry;
}

Mappings::iterator mapping_at(CUdeviceptr address) noexcept {
  const auto entry = first_after(address);
  return entry != mappings.end() && entry->first <= address ? entry : mappings.end();
}

bool is_unmapped(CUdeviceptr address, std::size_t bytes) noexcept {
  const auto entry = first_after(address);
  return entry == mappings.end() || entry->first - address >= bytes;
}

// A part of reserved addresses with nothing in it: to unmap it once more is no error.
bool is_unused(CUdeviceptr address, std::size_t bytes) noexcept {
  return bytes != 0 && is_reserved(address, bytes) && is_unmapped(address, bytes);
}

// Whether the range holds whole mappings, side by side, and nothing else. Source: CUDA driver API, cuMemUnmap and
// cuMemSetAccess.
bool is_whole_mappings(CUdeviceptr address, std::size_t bytes) noexcept {
  std::size_t reached = 0;
  while (reached < bytes) {
    const auto entry = mappings.find(address + reached);
    if (entry == mappings.end()) return false;
    reached += entry->second.bytes;
  }
  return bytes != 0 && reached == bytes;
}

template <class Visit>
void each_mapping(CUdeviceptr address, std::size_t bytes, Visit&& visit) {
  for (auto entry = mappings.find(address); entry != mappings.end() && entry->first - address < bytes; ++entry) {
    visit(entry->first, entry->second);
  }
}

// Values are kept by address: of memory that is there at several, none are.
void forbid_shared_values(CUmemGenericAllocationHandle handle) noexcept {
  const auto is_of = [handle](const auto& entry) { return entry.second.physical == handle; };
  if (std::count_if(mappings.begin(), mappings.end(), is_of) < 2) return;
  for (auto& [address, mapping] : mappings) {
    if (mapping.physical != handle || !mapping.has_values) continue;
    mapping.has_values = false;
    allow_values(to_pointer(address), mapping.bytes, false);
  }
}

Access strongest(const Mapping& mapping) noexcept {
  switch (*std::max_element(mapping.access.begin(), mapping.access.end())) {
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE: return Access::ReadWrite;
    case CU_MEM_ACCESS_FLAGS_PROT_READ: return Access::Read;
    default: return Access::None;
  }
}

bool is_access(const CUmemAccessDesc& access) noexcept {
  const bool is_flag = access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || access.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                       access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return is_flag && access.location.type == CU_MEM_LOCATION_TYPE_DEVICE && is_device(access.location.id);
}

void drop_reference(CUmemGenericAllocationHandle handle) noexcept {
  Physical* physical = physicals.get(key(handle));
  if (!physical || --physical->references > 0) return;
  give_memory(physical->properties.location.id, physical->bytes, MemoryKind::Device);
  physicals.destroy(key(handle));
}

}  // namespace

namespace ph::driver {

bool find_reservation(CUdeviceptr address, Reservation& out) noexcept {
  const std::lock_guard lock(mutex);
  const auto entry = reservation_at(address);
  if (entry == reservations.end()) return false;
  out = {entry->first, entry->second};
  return true;
}

}  // namespace ph::driver

extern "C" {

PH_EXPORT CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                                 CUmemAllocationGranularity_flags) noexcept {
  PH_CALL(cuMemGetAllocationGranularity);
  if (!bytes || !properties) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kGranularityBytes;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                                       unsigned long long flags) noexcept {
  PH_CALL(cuMemAddressReserve, HostCost::Alloc);
  const bool is_aligned = (alignment & (alignment - 1)) == 0;
  if (!address || !is_whole(bytes) || !is_aligned || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t step = std::max(alignment, kGranularityBytes);
  const std::lock_guard lock(mutex);
  const bool is_hinted = hint != 0 && hint % step == 0 && take_hinted(hint, bytes);
  const CUdeviceptr base = is_hinted ? hint : take_addresses(bytes, step);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  reservations[base] = bytes;
  *address = base;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) noexcept {
  PH_CALL(cuMemAddressFree, HostCost::Alloc);
  const std::lock_guard lock(mutex);
  const auto entry = reservations.find(address);
  if (entry == reservations.end() || entry->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!is_unmapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  give_addresses(address, bytes);
  reservations.erase(entry);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                               const CUmemAllocationProp* properties, unsigned long long flags) noexcept {
  PH_CALL(cuMemCreate, HostCost::Alloc);
  if (!handle || !properties || !is_whole(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  // Fabric handles need a service across nodes (IMEX), which ordinary clusters do not run; programs fall back.
  if (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
  ensure_context(properties->location.id);
  if (!take_memory(properties->location.id, bytes, MemoryKind::Device)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(physicals.create({*properties, bytes, 1}));
  return *handle != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

PH_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) noexcept {
  PH_CALL(cuMemRelease, HostCost::Alloc);
  const std::lock_guard lock(mutex);
  if (!physicals.get(key(handle))) return CUDA_ERROR_INVALID_VALUE;
  drop_reference(handle);
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) noexcept {
  PH_CALL(cuMemRetainAllocationHandle);
  const std::lock_guard lock(mutex);
  const auto mapping = mapping_at(to_address(address));
  if (!handle || mapping == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *handle = mapping->second.physical;
  physicals.get(key(*handle))->references += 1;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                          CUmemGenericAllocationHandle handle) noexcept {
  PH_CALL(cuMemGetAllocationPropertiesFromHandle);
  const Physical* physical = physicals.get(key(handle));
  if (!properties || !physical) return CUDA_ERROR_INVALID_VALUE;
  *properties = physical->properties;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags) noexcept {
  PH_CALL(cuMemMap, HostCost::Alloc);
  const std::lock_guard lock(mutex);
  Physical* physical = physicals.get(key(handle));
  if (!physical || !is_whole(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (offset % kGranularityBytes != 0 || offset > physical->bytes || bytes > physical->bytes - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (address % kGranularityBytes != 0 || !is_reserved(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_unmapped(address, bytes)) return CUDA_ERROR_ALREADY_MAPPED;
  physical->references += 1;
  mappings[address] = {bytes, handle};
  add_mapping(to_pointer(address), bytes, physical->properties.location.id);
  forbid_shared_values(handle);
  return CUDA_SUCCESS;
}

// What the memory holds is lost to us, also where it is mapped again: a program that does so finds unknown values.
PH_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) noexcept {
  PH_CALL(cuMemUnmap, HostCost::Alloc);
  {
    const std::lock_guard lock(mutex);
    if (is_unused(address, bytes)) return CUDA_SUCCESS;
    if (!is_whole_mappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  }
  release_values(to_pointer(address), bytes);  // may wait for other ranks
  const std::lock_guard lock(mutex);
  if (!is_whole_mappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  each_mapping(address, bytes, [](CUdeviceptr base, const Mapping& mapping) {
    if (!mapping.has_values) allow_values(to_pointer(base), mapping.bytes, true);
    remove_mapping(to_pointer(base));
    drop_reference(mapping.physical);
  });
  mappings.erase(mappings.find(address), mappings.lower_bound(address + bytes));
  madvise(to_pointer(address), bytes, MADV_DONTNEED);
  return CUDA_SUCCESS;
}

// Copies and fills need that some device may do so; which one does is not looked at.
PH_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                                  size_t count) noexcept {
  PH_CALL(cuMemSetAccess, HostCost::Alloc);
  const std::lock_guard lock(mutex);
  if (!access || count == 0 || !is_whole_mappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!std::all_of(access, access + count, is_access)) return CUDA_ERROR_INVALID_VALUE;
  each_mapping(address, bytes, [access, count](CUdeviceptr base, Mapping& mapping) {
    for (std::size_t i = 0; i < count; ++i) mapping.access[access[i].location.id] = access[i].flags;
    set_mapping_access(to_pointer(base), strongest(mapping));
  });
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                  CUdeviceptr address) noexcept {
  PH_CALL(cuMemGetAccess);
  const std::lock_guard lock(mutex);
  const auto mapping = mapping_at(address);
  if (!flags || !location || mapping == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !is_device(location->id)) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->second.access[location->id];
  return CUDA_SUCCESS;
}

}  // extern "C"
