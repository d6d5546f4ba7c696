// The rank's side of a channel, for tests only: a Python process that plays a rank.
// The real one is in csrc/shim/channel, which cannot be loaded without taking the process over.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bindings/channel_set.h"

namespace ph {

class TestRank {
 public:
  struct Reply {
    ReplyStatus status;
    Nanoseconds time_ns;
    std::uint64_t value;
    std::string payload;
  };

  TestRank(const std::string& run_dir, std::uint32_t rank);

  // Sets the clock, then appends the cells, waiting while the ring is full; rings the doorbell if asked or full.
  void push(std::string_view cells, Nanoseconds host_clock_ns, bool ring);
  void set_clock(Nanoseconds host_clock_ns);
  // The next reply of a slot; none at the timeout.
  std::optional<Reply> wait_reply(std::uint32_t slot, int timeout_ms);
  // Counts a call to another rank, or the end of one.
  void count_call(std::uint32_t to, bool ended);
  // What a wild pointer may do: puts the value's lowest bytes into a field, by its name.
  void overwrite(const std::string& field, std::uint64_t value);
  static std::vector<std::string> fields();
  bool aside() const { return channel().aside.load() != 0; }

 private:
  Channel& channel() const { return *static_cast<Channel*>(channel_.data()); }
  void ring();

  const std::uint32_t rank_;
  Mapping board_;
  Mapping channel_;
};

}  // namespace ph
