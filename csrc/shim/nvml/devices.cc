// Devices: handles, identity, modes and memory.
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "shim/core/addresses.h"
#include "shim/core/handles.h"
#include "shim/core/properties.h"
#include "shim/nvml/nvml.h"

using namespace ph;
using namespace ph::nvml;

namespace {

constinit HandleTable<int> devices(HandleTag::Nvml);

bool exists(unsigned index) noexcept { return index < config().device_count; }

nvmlReturn_t write_text(char* text, unsigned length, const std::string& value) noexcept {
  if (!text) return NVML_ERROR_INVALID_ARGUMENT;
  if (value.size() >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(text, value.c_str(), value.size() + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t count_devices(unsigned* count) noexcept {
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = config().device_count;
  return NVML_SUCCESS;
}

nvmlReturn_t by_index(unsigned index, nvmlDevice_t* device) noexcept {
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  if (!device || !exists(index)) return NVML_ERROR_INVALID_ARGUMENT;
  *device = handle_of(static_cast<int>(index));
  return NVML_SUCCESS;
}

nvmlReturn_t by_bus(const char* text, nvmlDevice_t* device) noexcept {
  unsigned domain = 0, bus = 0;
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  if (!text || !device || std::sscanf(text, "%x:%x:", &domain, &bus) != 2) return NVML_ERROR_INVALID_ARGUMENT;
  const auto index = bus - static_cast<unsigned>(device_pci_bus(0));
  return domain == 0 && exists(index) ? by_index(index, device) : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t write_pci(nvmlDevice_t handle, nvmlPciInfo_t* pci) noexcept {
  PH_NVML_DEVICE(device, handle);
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  *pci = {};
  pci->bus = static_cast<unsigned>(device_pci_bus(device));
  std::snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus & 0xff);
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus & 0xff);
  return NVML_SUCCESS;
}

// Used is what this process took: the other GPUs of the node belong to other ranks, whose memory it cannot see.
struct Usage {
  std::size_t free, total;
};
Usage usage(int device) noexcept {
  const auto total = static_cast<std::size_t>(config().number("gpu.totalGlobalMem"));
  Usage result{total, total};
  if (has_context(device)) memory_info(device, result.free, result.total);
  return result;
}

}  // namespace

namespace ph::nvml {

nvmlDevice_t handle_of(int device) noexcept {
  static const auto handles = [] {
    std::array<void*, kMaxDevices> made{};
    for (int i = 0; i < kMaxDevices; ++i) made[i] = devices.create(i);
    return made;
  }();
  return static_cast<nvmlDevice_t>(handles[device]);
}

int ordinal_of(nvmlDevice_t handle) noexcept {
  const int* device = devices.get(handle);
  return device && exists(static_cast<unsigned>(*device)) ? *device : -1;
}

}  // namespace ph::nvml

extern "C" {

PH_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned* count) noexcept {
  PH_CALL(nvmlDeviceGetCount);
  return count_devices(count);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) noexcept {
  PH_CALL(nvmlDeviceGetCount_v2);
  return count_devices(count);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) noexcept {
  PH_CALL(nvmlDeviceGetHandleByIndex);
  return by_index(index, device);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) noexcept {
  PH_CALL(nvmlDeviceGetHandleByIndex_v2);
  return by_index(index, device);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) noexcept {
  PH_CALL(nvmlDeviceGetHandleByUUID);
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  if (!uuid || !device) return NVML_ERROR_INVALID_ARGUMENT;
  for (unsigned index = 0; exists(index); ++index) {
    if (device_uuid_text(static_cast<int>(index)) == uuid) return by_index(index, device);
  }
  return NVML_ERROR_NOT_FOUND;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) noexcept {
  PH_CALL(nvmlDeviceGetHandleByPciBusId_v2);
  return by_bus(bus_id, device);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) noexcept {
  PH_CALL(nvmlDeviceGetHandleByPciBusId);
  return by_bus(bus_id, device);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char* name, unsigned length) noexcept {
  PH_CALL(nvmlDeviceGetName);
  PH_NVML_DEVICE(device, handle);
  return write_text(name, length, config().text("gpu.name"));
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned* index) noexcept {
  PH_CALL(nvmlDeviceGetIndex);
  PH_NVML_DEVICE(device, handle);
  if (!index) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<unsigned>(device);
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned* minor) noexcept {
  PH_CALL(nvmlDeviceGetMinorNumber);
  PH_NVML_DEVICE(device, handle);
  if (!minor) return NVML_ERROR_INVALID_ARGUMENT;
  *minor = static_cast<unsigned>(device);
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char* uuid, unsigned length) noexcept {
  PH_CALL(nvmlDeviceGetUUID);
  PH_NVML_DEVICE(device, handle);
  return write_text(uuid, length, device_uuid_text(device));
}

// The structure of its time ended before `pciSubSystemId`, and had the short bus id alone.
PH_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t handle, nvmlPciInfo_t* pci) noexcept {
  PH_CALL(nvmlDeviceGetPciInfo);
  nvmlPciInfo_t whole{};
  const nvmlReturn_t result = write_pci(handle, pci ? &whole : nullptr);
  if (result == NVML_SUCCESS) std::memcpy(pci, &whole, offsetof(nvmlPciInfo_t, pciSubSystemId));
  return result;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t* pci) noexcept {
  PH_CALL(nvmlDeviceGetPciInfo_v3);
  return write_pci(handle, pci);
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t* memory) noexcept {
  PH_CALL(nvmlDeviceGetMemoryInfo);
  PH_NVML_DEVICE(device, handle);
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  const Usage now = usage(device);
  *memory = {now.total, now.free, now.total - now.free};
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t* memory) noexcept {
  PH_CALL(nvmlDeviceGetMemoryInfo_v2);
  PH_NVML_DEVICE(device, handle);
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != (sizeof(nvmlMemory_v2_t) | 2u << 24)) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Usage now = usage(device);
  *memory = {memory->version, now.total, 0, now.free, now.total - now.free};
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int* major, int* minor) noexcept {
  PH_CALL(nvmlDeviceGetCudaComputeCapability);
  PH_NVML_DEVICE(device, handle);
  if (!major || !minor) return NVML_ERROR_INVALID_ARGUMENT;
  *major = static_cast<int>(config().number("gpu.major"));
  *minor = static_cast<int>(config().number("gpu.minor"));
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t handle, nvmlDeviceArchitecture_t* architecture) noexcept {
  PH_CALL(nvmlDeviceGetArchitecture);
  PH_NVML_DEVICE(device, handle);
  if (!architecture) return NVML_ERROR_INVALID_ARGUMENT;
  switch (config().number("gpu.major")) {
    case 8: *architecture = config().number("gpu.minor") == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE; break;
    case 9: *architecture = NVML_DEVICE_ARCH_HOPPER; break;
    case 10:
    case 12: *architecture = NVML_DEVICE_ARCH_BLACKWELL; break;
    default: *architecture = NVML_DEVICE_ARCH_UNKNOWN;
  }
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t handle, nvmlBrandType_t* brand) noexcept {
  PH_CALL(nvmlDeviceGetBrand);
  PH_NVML_DEVICE(device, handle);
  if (!brand) return NVML_ERROR_INVALID_ARGUMENT;
  *brand = NVML_BRAND_NVIDIA;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, nvmlEnableState_t* mode) noexcept {
  PH_CALL(nvmlDeviceGetPersistenceMode);
  PH_NVML_DEVICE(device, handle);
  if (!mode) return NVML_ERROR_INVALID_ARGUMENT;
  *mode = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t handle, nvmlComputeMode_t* mode) noexcept {
  PH_CALL(nvmlDeviceGetComputeMode);
  PH_NVML_DEVICE(device, handle);
  if (!mode) return NVML_ERROR_INVALID_ARGUMENT;
  *mode = NVML_COMPUTEMODE_DEFAULT;
  return NVML_SUCCESS;
}

PH_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned* current, unsigned* pending) noexcept {
  PH_CALL(nvmlDeviceGetMigMode);
  PH_NVML_DEVICE(device, handle);
  if (!current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
  *current = *pending = NVML_DEVICE_MIG_DISABLE;
  return NVML_SUCCESS;
}

}  // extern "C"
