// Tells a loop that does nothing but poll from a look now and then.
//
// How often a framework looks at a clock or an event while it waits for something outside, or before a helper thread
// does it, is a matter of luck and must not move virtual time; a loop that only polls must move it, or it would not
// end.
#pragma once

#include <algorithm>
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
  // Moves the host clock for a look, which goes on counting: by `cost_ns`, or by a share of what the loop has spun so
  // far if that is more. So a loop ends within that share of its length, in a number of looks that grows slowly.
  void charge(std::uint64_t cost_ns) noexcept {
    const std::uint64_t spun_ns = host_clock_ns() - start_ns_.load(std::memory_order_relaxed);
    move(std::max(cost_ns, spun_ns / kSpinSteps));
  }
  // Moves the host clock for another reason; the looks go on counting.
  void move(std::uint64_t duration_ns) noexcept {
    advance_host_clock(duration_ns);
    clock_ns_.store(host_clock_ns(), std::memory_order_relaxed);
  }
  // A loop that waits between its looks does not spin.
  void note_wait() noexcept {
    looks_.store(0, std::memory_order_relaxed);
    start_ns_.store(host_clock_ns(), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kSpinSteps = 10'000;

  std::atomic<std::uint64_t> clock_ns_{0};
  std::atomic<std::uint64_t> looks_{0};
  std::atomic<std::uint64_t> start_ns_{0};  // host clock when the loop began
};

}  // namespace ph
