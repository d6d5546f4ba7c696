// Facts of the simulated GPU that runtime, driver and NVML all answer.
#pragma once

#include "shim/core/api.h"

namespace ph {

// `attribute` as in cudaDeviceAttr and CUdevice_attribute, which share their numbers. False: not in the profile.
PH_EXPORT bool device_attribute(int device, int attribute, int& value) noexcept;
PH_EXPORT void device_uuid(int device, unsigned char* uuid) noexcept;  // 16 bytes
PH_EXPORT int device_pci_bus(int device) noexcept;

}  // namespace ph
