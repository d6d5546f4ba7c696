// Which of the node's GPUs this process sees, and under which numbers: CUDA_VISIBLE_DEVICES.
//
// A *device* is numbered as the process sees it, everywhere in the shim but in NVML; records name the GPU on the node.
#pragma once

#include <array>
#include <cstdint>

#include "shim/core/addresses.h"
#include "shim/core/api.h"

namespace ph {

// The variable is read at the first question or use, as the driver reads it when it is initialised.
PH_EXPORT int visible_devices() noexcept;
inline bool is_visible(int device) noexcept { return device >= 0 && device < visible_devices(); }

// The GPU on the node that is this device; as without the variable until it was read.
extern PH_EXPORT std::array<std::uint16_t, kMaxDevices> gpu_of_device;
inline std::uint16_t node_gpu(int device) noexcept { return gpu_of_device[device]; }
// The device that is this GPU; -1: none.
PH_EXPORT int device_of_gpu(int gpu) noexcept;

}  // namespace ph
