// What this process has mapped of its rank: the channel and the run's switchboard.
#pragma once

#include <cstdint>

#include "protocol/channel.h"
#include "protocol/switchboard.h"

namespace ph {

struct Attachment {
  Channel* channel = nullptr;
  Switchboard* board = nullptr;
  std::uint32_t board_rows = 0;  // as they were at the start
  std::uint32_t rank = 0;
  Nanoseconds last_record_clock_ns = 0;  // guarded by the channel's lock
  Nanoseconds values_ns = 0;  // likewise: when what a driver has waited for was sent, while the rank is aside
};
extern constinit Attachment attachment;

// The agent looks at the rank's channel.
void ring_doorbell() noexcept;

}  // namespace ph
