// Tells a loop that does nothing but poll from a look now and then.
//
// How often a framework looks at a clock or an event while it waits for something outside, or before a helper thread
// does it, differs from run to run and must not move virtual time; a loop that only polls must move it, or it would not
// end.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/channel/rank.h"

namespace ph {

class SpinWatch {
 public:
  explicit SpinWatch(std::uint64_t looks_apart) noexcept : looks_apart_(looks_apart) {}
  // How many looks since something else moved the host clock or the program waited, this one included.
  std::uint64_t note() noexcept {
    const Nanoseconds now_ns = host_clock_ns();
    if (clock_ns_.exchange(now_ns, std::memory_order_relaxed) != now_ns) note_wait();
    return looks_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Whether the last look was at least so many in a row.
  bool has_noted(std::uint64_t looks) const noexcept { return looks_.load(std::memory_order_relaxed) >= looks; }
  // Moves the host clock for a look, which goes on counting: by `cost_ns`, and by as much again for each
  // `looks_apart_` looks so far. So the time of a loop grows with the square of its looks: one with a distant deadline ends soon, and
  // one that merely looks often does not run away.
  void charge(Nanoseconds cost_ns) noexcept {
    move(cost_ns * static_cast<Nanoseconds>(1 + looks_.load(std::memory_order_relaxed) / looks_apart_));
  }
  // Moves the host clock for another reason; the looks go on counting.
  void move(Nanoseconds duration_ns) noexcept {
    advance_host_clock(duration_ns);
    clock_ns_.store(host_clock_ns(), std::memory_order_relaxed);
  }
  // A loop that waits between its looks does not spin.
  void note_wait() noexcept { looks_.store(0, std::memory_order_relaxed); }

 private:
  const std::uint64_t looks_apart_;
  std::atomic<Nanoseconds> clock_ns_{0};
  std::atomic<std::uint64_t> looks_{0};
};

}  // namespace ph
