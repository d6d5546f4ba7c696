// Tells a loop that does nothing but poll from a look now and then.
//
// How often a framework looks at a clock or an event while it waits for something outside, or before a helper thread does
// it, is a matter of luck and must not move virtual time; a loop that only polls must move it, or it would not end.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/core/rank.h"

namespace ph {

class SpinWatch {
 public:
  // How many looks since something else moved the host clock or the program waited, this one included.
  std::uint64_t note() noexcept {
    const std::uint64_t now_ns = host_clock_ns();
    if (clock_ns_.exchange(now_ns, std::memory_order_relaxed) != now_ns) note_wait();
    return looks_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Moves the host clock for a look, which goes on counting.
  void charge(std::uint64_t cost_ns) noexcept {
    advance_host_clock(cost_ns);
    clock_ns_.store(host_clock_ns(), std::memory_order_relaxed);
  }
  // A loop that waits between its looks does not spin.
  void note_wait() noexcept { looks_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> clock_ns_{0};
  std::atomic<std::uint64_t> looks_{0};
};

}  // namespace ph
