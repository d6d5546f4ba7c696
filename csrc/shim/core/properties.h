// Facts of the simulated GPU that runtime, driver and NVML all answer.
#pragma once

#include <string>

#include "shim/core/api.h"

namespace ph {

// GPUs are those of the node; a device is one as the process sees it (visible_devices.h).
// `attribute` as in cudaDeviceAttr and CUdevice_attribute, which share their numbers. False: not in the profile.
PH_EXPORT bool device_attribute(int device, int attribute, int& value) noexcept;
PH_EXPORT void device_uuid(int gpu, unsigned char* uuid) noexcept;  // 16 bytes
PH_EXPORT std::string device_uuid_text(int gpu);  // as nvidia-smi prints it
PH_EXPORT int device_pci_bus(int gpu) noexcept;

}  // namespace ph
