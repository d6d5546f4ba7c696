// What the sources of our NVML share. NVML sees every GPU of the simulated node, and never makes a context.
#pragma once

#include "shim/calls/library.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/nvml/nvml_types.h"

namespace ph::nvml {

bool initialised() noexcept;
nvmlDevice_t handle_of(int device) noexcept;
// The ordinal behind a handle, or -1.
int ordinal_of(nvmlDevice_t handle) noexcept;

// Every query of a device begins with this: the library is initialised, the device exists.
#define PH_NVML_DEVICE(name, handle)                                \
  if (!::ph::nvml::initialised()) return NVML_ERROR_UNINITIALIZED;  \
  [[maybe_unused]] const int name = ::ph::nvml::ordinal_of(handle); \
  if (name < 0) return NVML_ERROR_INVALID_ARGUMENT

}  // namespace ph::nvml
