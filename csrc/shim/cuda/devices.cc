// Initialisation, versions and devices.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/core/properties.h"
#include "shim/cuda/driver.h"

using namespace ph;
using namespace ph::driver;

namespace {

int attribute_or_zero(CUdevice device, CUdevice_attribute attribute) noexcept {
  int value = 0;
  return device_attribute(device, attribute, value) ? value : 0;
}

CUresult write_uuid(CUuuid* uuid, CUdevice device) noexcept {
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  device_uuid(node_gpu(device), reinterpret_cast<unsigned char*>(uuid->bytes));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT CUresult cuInit(unsigned flags) noexcept {
  PH_CALL(cuInit, HostCost::Setup);
  return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuDriverGetVersion(int* version) noexcept {
  PH_CALL(cuDriverGetVersion);
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = static_cast<int>(config().number("gpu.driverVersion"));
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDeviceGetCount(int* count) noexcept {
  PH_CALL(cuDeviceGetCount);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = visible_devices();
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) noexcept {
  PH_CALL(cuDeviceGet);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) noexcept {
  PH_CALL(cuDeviceGetName);
  if (!name || length < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(length), "%s", config().text("gpu.name").c_str());
  return CUDA_SUCCESS;
}

// The unversioned form, for programs that look it up by name; cuda.h maps the name to the other.
#undef cuDeviceGetUuid
PH_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) noexcept {
  PH_CALL(cuDeviceGetUuid);
  return write_uuid(uuid, device);
}

PH_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) noexcept {
  PH_CALL(cuDeviceGetUuid_v2);
  return write_uuid(uuid, device);
}

PH_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) noexcept {
  PH_CALL(cuDeviceTotalMem_v2);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = static_cast<std::size_t>(config().number("gpu.totalGlobalMem"));
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) noexcept {
  PH_CALL(cuDeviceGetAttribute);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return device_attribute(device, attribute, *value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PH_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) noexcept {
  PH_CALL(cuDeviceComputeCapability);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = static_cast<int>(config().number("gpu.major"));
  *minor = static_cast<int>(config().number("gpu.minor"));
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) noexcept {
  PH_CALL(cuDeviceGetPCIBusId);
  if (!text || length < 13) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0",
                static_cast<unsigned>(device_pci_bus(node_gpu(device))));
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) noexcept {
  PH_CALL(cuDeviceGetByPCIBusId);
  if (!device || !text) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x:", &domain, &bus) != 2) return CUDA_ERROR_INVALID_VALUE;
  const int ordinal = device_of_gpu(static_cast<int>(bus) - device_pci_bus(0));
  if (domain != 0 || !is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

// All GPUs of a simulated node reach each other.
PH_EXPORT CUresult cuDeviceCanAccessPeer(int* can_access, CUdevice device, CUdevice peer) noexcept {
  PH_CALL(cuDeviceCanAccessPeer);
  if (!can_access) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can_access = device != peer;
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                           CUdevice peer) noexcept {
  PH_CALL(cuDeviceGetP2PAttribute);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device) || !is_device(peer) || device == peer) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: *value = 1; return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: *value = 0; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

PH_EXPORT CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) noexcept {
  PH_CALL(cuDeviceGetProperties);
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto read = [device](CUdevice_attribute attribute) { return attribute_or_zero(device, attribute); };
  properties->maxThreadsPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int axis = 0; axis < 3; ++axis) {
    properties->maxThreadsDim[axis] = read(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + axis));
    properties->maxGridSize[axis] = read(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + axis));
  }
  properties->sharedMemPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties->totalConstantMemory = read(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties->SIMDWidth = read(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties->memPitch = read(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties->regsPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->clockRate = read(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->textureAlign = read(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

}  // extern "C"
