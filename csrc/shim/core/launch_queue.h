// How far the host may be ahead of the GPU; see docs/decisions/launch-queue.md.
#pragma once

#include "shim/core/device.h"

namespace ph {

// Makes the calling thread a driver that puts one more piece of work on the stream: waits until its queue has room.
PH_EXPORT void enter_queue(StreamRef stream) noexcept;

}  // namespace ph
