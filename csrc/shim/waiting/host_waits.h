// The host waits for the GPU, or asks whether it is done.
#pragma once

#include "shim/core/device.h"

namespace ph {

// Host waits: until the stream, the event's last record or the device is done, values included.
PH_EXPORT void wait_stream(StreamRef stream) noexcept;
PH_EXPORT void wait_event(EventRef event) noexcept;
PH_EXPORT void wait_device(int device) noexcept;
// True: done.
PH_EXPORT bool query_stream(StreamRef stream) noexcept;
PH_EXPORT bool query_event(EventRef event) noexcept;

}  // namespace ph
