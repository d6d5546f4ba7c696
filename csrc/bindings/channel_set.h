// The agent's side of the channels of its ranks: creates and maps them, drains rings, writes replies.
// The contract is protocol/channel.h. No Python in here.
//
// A rank may write anything there, at any time. Whatever is read is read once, and checked before it is used; what cannot
// be is noted as damage, and the rank's channel is left alone from then on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/mapping.h"
#include "protocol/channel.h"

namespace ph {

void futex_wake(std::atomic<std::uint32_t>& word);
// Returns at a wake-up, when the word differs, at the timeout (negative: none), or at a signal.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, int timeout_ms);

void lock(Channel& channel);
bool try_lock(Channel& channel);
void unlock(Channel& channel);

class ChannelSet {
 public:
  struct Poll {
    std::uint32_t rank;
    Nanoseconds host_clock_ns;
    std::string cells;
  };

  ChannelSet(const std::string& run_dir, const std::vector<std::uint32_t>& ranks);

  // Sleeps until the doorbell has rung since the last collect, or the timeout; false at the timeout. A while longer if
  // there are more ranks at work than processors for them.
  bool sleep(int timeout_ms);
  // What is new: ranks with records, and ranks whose clock alone has moved.
  std::vector<Poll> collect();

  void answer(std::uint32_t rank, std::uint32_t slot, ReplyStatus status, Nanoseconds time_ns, std::uint64_t value,
              std::string_view payload);
  bool set_aside(std::uint32_t rank);
  // Answers the rank's questions about its child processes up to this one: they sleep by the clock, or wait.
  void tell_children(std::uint32_t rank, std::uint32_t question, bool sleep);
  const Channel& channel(std::uint32_t rank) const { return entry(rank).channel(); }
  void wake();

  // What a rank has made of the memory that it shares with us, first found; from then on the run cannot go on.
  struct Damage {
    std::optional<std::uint32_t> rank;  // none: it may have been any of them
    std::string what;  // the end of a sentence that begins with the rank
  };
  std::optional<Damage> damage();

  struct CallCount {
    std::uint32_t begun = 0;  // modulo 2^32
    bool under_way = false;  // or an answer that comes at once
    std::uint32_t answers = 0;
  };
  // The calls to each rank, and how often it was answered.
  std::vector<std::pair<std::uint32_t, CallCount>> calls();
  // The rank has ended: what it was doing is done.
  void hang_up(std::uint32_t rank);
  // The process of the rank has ended: whether it is followed by another, or may be from now on.
  bool release(std::uint32_t rank, std::uint32_t pid);

 private:
  struct Entry {
    std::uint32_t rank;
    Nanoseconds reported_clock_ns;
    bool gone = false;
    bool damaged = false;
    std::uint64_t tail = 0;  // as we know it
    Mapping mapping;
    std::unique_ptr<std::atomic<std::uint32_t>> answers = std::make_unique<std::atomic<std::uint32_t>>(0);
    Channel& channel() const { return *static_cast<Channel*>(mapping.data()); }
  };

  // Among the entries. Throws if the rank is not ours.
  std::size_t place(std::uint32_t rank) const;
  const Entry& entry(std::uint32_t rank) const { return entries_[place(rank)]; }
  // Whether so many ranks run that all processors are busy: an answer would let no rank run sooner.
  bool keeps_processors_busy() const;
  Switchboard& board() const { return *static_cast<Switchboard*>(board_.data()); }
  CallCounters& calls(std::uint32_t from, Recipient to) const { return board().calls(rows_, from, to); }
  void note(std::optional<std::uint32_t> rank, const std::string& what);
  // Empty: what can be checked at a glance is as it must be.
  std::string fault(const Entry& entry) const;

  const std::size_t processors_;
  const std::uint32_t rows_;
  Mapping board_;
  std::uint32_t rings_seen_ = 0;
  std::vector<Entry> entries_;
  std::unordered_map<std::uint32_t, std::size_t> by_rank_;
  std::mutex damage_mutex_;  // answers come from another thread
  std::optional<Damage> damage_;
};

std::string channel_path(const std::string& run_dir, std::uint32_t rank);
std::string switchboard_path(const std::string& run_dir);

}  // namespace ph
