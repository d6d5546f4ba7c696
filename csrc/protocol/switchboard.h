// What the ranks of one host share: the agent's doorbell, who has which network address, and which acts outside
// concern whom (docs/decisions/outside-waits.md).
//
// A *call* is something one rank does that another can notice by other means than the GPU. It has begun before the
// system call that does it and has ended after it, so that a rank for which no call has begun since it was found asleep
// is asleep still. Whoever begins a call counts it, except where a rank has to ask first: then the agent does so as it
// gives leave.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "protocol/nanoseconds.h"

namespace ph {

// Whom a call concerns: a rank plus one.
using Recipient = std::uint32_t;
inline constexpr Recipient kNobody = 0;
inline constexpr Recipient kEveryone = 0xffffffff;  // also: not known whom

struct CallCounters {
  std::atomic<std::uint32_t> begun;
  std::atomic<std::uint32_t> ended;
};

// The calls of one rank. A recipient has the cell at its number or one of the next kCallProbes, claimed at the first call
// and never given back, so that a call ends where it began. Who finds none is called as everyone is: then more ranks
// than it concerns are thought to be called.
inline constexpr std::size_t kCallCells = 128;
inline constexpr std::size_t kCallProbes = 16;

struct CallCell {
  std::atomic<Recipient> to;  // kNobody: free
  CallCounters counters;
};

struct CallRow {
  CallCounters to_everyone;
  CallCell cells[kCallCells];

  // A recipient that is no rank is everyone.
  CallCounters& to(std::uint32_t ranks, Recipient recipient) noexcept {
    if (recipient == kNobody || recipient > ranks) return to_everyone;
    for (std::size_t probe = 0; probe < kCallProbes; ++probe) {
      CallCell& cell = cells[(recipient + probe) % kCallCells];
      Recipient owner = cell.to.load();
      if (owner == kNobody && cell.to.compare_exchange_strong(owner, recipient)) return cell.counters;
      if (owner == recipient) return cell.counters;
    }
    return to_everyone;
  }
};

// A hash table that only grows: a pair lies at the hash's place or in one of the next kAddressProbes.
inline constexpr std::size_t kAddresses = 1u << 16;
inline constexpr std::size_t kAddressProbes = 16;

struct AddressEntry {
  std::atomic<std::uint64_t> hash;  // of the address; 0: free
  std::atomic<Recipient> owner;  // kNobody: not known yet
};

struct Switchboard {
  std::atomic<std::uint32_t> rings;  // the doorbell: a futex word, incremented by ranks
  std::uint32_t ranks;  // as the agent has made it; whoever uses it keeps it apart, because anybody may overwrite it
  AddressEntry addresses[kAddresses];
  // Where a program starts its ranks itself: real time from the run's start to when one of them was the first that used
  // a GPU, in nanoseconds; 0: none has.
  std::atomic<Nanoseconds> first_use_ns;
  // Followed by a row for each rank.

  CallRow& row(std::uint32_t from) noexcept { return reinterpret_cast<CallRow*>(this + 1)[from]; }
  // `rows`: `ranks`, as it was at the start.
  CallCounters& calls(std::uint32_t rows, std::uint32_t from, Recipient to) noexcept { return row(from).to(rows, to); }
};

inline std::size_t switchboard_bytes(std::uint32_t ranks) noexcept {
  return sizeof(Switchboard) + ranks * sizeof(CallRow);
}

}  // namespace ph
