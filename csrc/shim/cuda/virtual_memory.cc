// Virtual memory management: addresses, physical memory and the mapping between them, each on its own.
//
// Physical memory is an amount taken from the device's account; addresses are host addresses that nothing backs,
// drawn in order and never drawn again, but where a hint names free ones of a device's own range: there a GPU executor
// that is simulated itself lays memory (docs/decisions/kernels-by-name.md).
#include <algorithm>
#include <map>
#include <mutex>

#include <sys/mman.h>

#include "shim/core/addresses.h"
#include "shim/core/handles.h"
#include "shim/cuda/driver.h"

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
};

constinit HandleTable<Physical> physicals(HandleTag::Physical);
std::mutex mutex;  // guards what follows, and the reference counts
std::uintptr_t next_address = kFirstReservable;
auto& reservations = *new std::map<CUdeviceptr, std::size_t>;
auto& mappings = *new std::map<CUdeviceptr, Mapping>;

void* key(CUmemGenericAllocationHandle handle) noexcept { return reinterpret_cast<void*>(handle); }

bool is_whole(std::size_t bytes) noexcept { return bytes > 0 && bytes % kGranularityBytes == 0; }

// The reservation that holds the range, with the mutex held.
bool is_reserved(CUdeviceptr address, std::size_t bytes) noexcept {
  auto entry = reservations.upper_bound(address);
  if (entry == reservations.begin()) return false;
  --entry;
  return address + bytes <= entry->first + entry->second;
}

auto mapping_at(CUdeviceptr address) noexcept {
  auto entry = mappings.upper_bound(address);
  if (entry == mappings.begin()) return mappings.end();
  --entry;
  return address < entry->first + entry->second.bytes ? entry : mappings.end();
}

void drop_reference(CUmemGenericAllocationHandle handle) noexcept {
  Physical* physical = physicals.get(key(handle));
  if (!physical || --physical->references > 0) return;
  give_memory(physical->properties.location.id, physical->bytes, MemoryKind::Device);
  physicals.destroy(key(handle));
}

}  // namespace

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
  if (!address || !is_whole(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t step = std::max(alignment, kGranularityBytes);
  const std::lock_guard lock(mutex);
  if (hint != 0 && hint % step == 0 && take_range(hint, bytes)) {
    reservations[hint] = bytes;
    *address = hint;
    return CUDA_SUCCESS;
  }
  if (step > kEndOfReservable - next_address) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uintptr_t base = (next_address + step - 1) / step * step;
  if (bytes > kEndOfReservable - base) return CUDA_ERROR_OUT_OF_MEMORY;
  void* reserved = mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved != reinterpret_cast<void*>(base)) return CUDA_ERROR_OUT_OF_MEMORY;
  madvise(reserved, bytes, MADV_DONTDUMP);
  next_address = base + bytes;
  reservations[base] = bytes;
  *address = base;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) noexcept {
  PH_CALL(cuMemAddressFree, HostCost::Alloc);
  const std::lock_guard lock(mutex);
  const auto entry = reservations.find(address);
  if (entry == reservations.end() || entry->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!give_range(address, bytes)) munmap(to_pointer(address), bytes);
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
  if (!physical || !is_whole(bytes) || offset + bytes > physical->bytes || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_reserved(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (mapping_at(address) != mappings.end()) return CUDA_ERROR_ALREADY_MAPPED;
  physical->references += 1;
  mappings[address] = {bytes, handle};
  add_mapping(to_pointer(address), bytes, physical->properties.location.id);
  return CUDA_SUCCESS;
}

// The range may hold several mappings, each of them whole.
PH_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) noexcept {
  PH_CALL(cuMemUnmap, HostCost::Alloc);
  const std::lock_guard lock(mutex);
  auto entry = mappings.find(address);
  if (entry == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  while (entry != mappings.end() && entry->first < address + bytes) {
    remove_mapping(to_pointer(entry->first));
    madvise(to_pointer(entry->first), entry->second.bytes, MADV_DONTNEED);
    drop_reference(entry->second.physical);
    entry = mappings.erase(entry);
  }
  return CUDA_SUCCESS;
}

// Every GPU of the node may reach all memory here; what the program asks for is checked, not kept.
PH_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                                  size_t count) noexcept {
  PH_CALL(cuMemSetAccess, HostCost::Alloc);
  const std::lock_guard lock(mutex);
  if (!access || count == 0 || bytes == 0 || mapping_at(address) == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                  CUdeviceptr address) noexcept {
  PH_CALL(cuMemGetAccess);
  const std::lock_guard lock(mutex);
  if (!flags || !location || mapping_at(address) == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

}  // extern "C"
