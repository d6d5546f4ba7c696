// The clock reads of the program's own Python lines, which tell what it times itself.
//
// The interpreter reads a clock for itself too, whenever it takes a lock, and what a read was for shows only in what
// comes after it. So a read is marked when the thread goes on, before its host clock moves or it writes a record.
#pragma once

#include <cstdint>

#include "shim/channel/hooks.h"  // mark_clock_read
#include "shim/core/api.h"

namespace ph {

// The interpreter reads a clock, on a driver thread that holds the GIL. Of a loop that `polls` the last read is marked.
void note_clock_read(bool polls) noexcept;
// While it lives the host clock moves without a mark of the thread's last read.
class PendingClockRead {
 public:
  PendingClockRead() noexcept;
  ~PendingClockRead();
  PendingClockRead(const PendingClockRead&) = delete;
  PendingClockRead& operator=(const PendingClockRead&) = delete;

 private:
  std::uint32_t read_at_;
};
// The thread's last read was not the program's.
void drop_clock_read() noexcept;

}  // namespace ph
