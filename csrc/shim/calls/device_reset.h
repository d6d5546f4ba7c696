// The end of a device's primary context, before that of the process: cudaDeviceReset, cuDevicePrimaryCtxReset.
#pragma once

#include "shim/core/api.h"

namespace ph::calls {

// Waits for the device, then frees its memory and destroys its streams and events. The next call that needs the
// device makes a new context. Source: CUDA runtime API, cudaDeviceReset.
PH_EXPORT void reset_device(int device) noexcept;

// Whoever keeps addresses or handles of a device has them forgotten then. For initialisers of static objects.
PH_EXPORT bool at_device_reset(void (*forget)(int device) noexcept) noexcept;

}  // namespace ph::calls
