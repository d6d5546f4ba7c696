// The shared memory between one rank and its host agent: a ring of record cells one way, reply slots the other.
//
// The rank is the only process that writes cells (its threads take `lock`), the agent the only one that
// consumes them. The agent never blocks on `lock`: it tries it, to set a quiet rank aside (see `aside`).
// A rank that waits sleeps on the futex word of a reply slot; the agent sleeps on the doorbell, one word
// for all ranks of the host (protocol/switchboard.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "protocol/nanoseconds.h"
#include "protocol/records.h"
#include "protocol/switchboard.h"

namespace ph {

inline constexpr std::uint64_t kChannelMagic = 0x314e4e4148434850;  // "PHCHANN1"
inline constexpr std::uint64_t kRingCells = 1u << 16;               // 4 MiB, some ten eager iterations
inline constexpr std::uint32_t kReplySlots = 16;                    // threads of a rank that may wait at once
inline constexpr std::uint32_t kReplyPayloadBytes = 16384;          // members of a communicator, 4 bytes each
inline constexpr std::uint64_t kDoorbellCells = kRingCells / 4;     // a running rank rings when this many wait

// What records give numbers to, each of which is never used again in the rank.
enum class Numbering : std::uint32_t { Signature, Site, Stream, Event };
inline constexpr std::size_t kNumberings = 4;

static_assert(kActivitiesAtOnce * sizeof(ActivityTimes) <= kReplyPayloadBytes);

struct ReplySlot {
  std::atomic<std::uint32_t> busy;     // claimed by a thread of the rank
  std::atomic<std::uint32_t> answered; // futex word: 0 while the rank waits, 1 when the reply is there
  ReplyStatus status;
  std::uint32_t payload_bytes;
  Nanoseconds time_ns;                 // the rank's host clock becomes at least this
  std::uint64_t value;
  Recipient recipient;                 // of the call that begins when this is answered; kNobody: none does
  unsigned char payload[kReplyPayloadBytes];
};

struct Channel {
  std::atomic<std::uint64_t> magic;    // written last
  std::uint32_t version;               // kProtocolVersion
  std::uint32_t rank;
  std::atomic<std::uint32_t> owner_pid;   // the process that drives the rank's GPU; 0 until its first call
  std::atomic<std::uint32_t> lock;        // 0 free, 1 held, 2 held and waited for
  std::atomic<std::uint32_t> aside;       // 1: the server no longer waits for this rank; it must resume first
  std::atomic<std::uint32_t> waiting;     // driver threads that wait for a reply
  std::atomic<Nanoseconds> host_clock_ns;
  // Loops that look outside (phantora_py/agent/idle.py).
  std::atomic<std::uint32_t> poll_sleeps;  // how often a thread slept in real time, to look outside again later
  std::atomic<std::uint32_t> polls_asleep;  // threads that do so now
  std::atomic<std::uint32_t> awaiting_values;  // threads that wait for values of tensors, in no virtual time
  std::atomic<std::uint32_t> asking;  // helper threads with a question that the server answers at once
  std::atomic<std::uint32_t> awaits_any;  // futex word, 1: helper threads sleep until one of several waits is answered
  std::atomic<std::uint32_t> giving_way_beside;  // of `giving_way`: also to processes of the run that are no ranks
  alignas(64) std::atomic<std::uint64_t> head;  // cells written
  alignas(64) std::atomic<std::uint64_t> tail;  // cells consumed
  // Threads that let the rank's child processes work first (libc/children.cc): how many do so now; how often one has
  // asked whether the children still do; the last question that is answered, times two, and one more if they sleep.
  std::atomic<std::uint32_t> giving_way;
  std::atomic<std::uint32_t> asked;
  std::atomic<std::uint32_t> told;  // futex word
  // Of a rank whose process has ended well, for another that follows (channel/succession.cc).
  std::atomic<std::uint32_t> left;  // the process's id; 0: none may follow
  Nanoseconds last_record_clock_ns;
  std::uint64_t numbers[kNumberings];  // given so far
  std::atomic<std::uint32_t> blocked;  // threads whose act may wait in the kernel for another rank, as for a lock
  std::atomic<std::uint32_t> looking_up;  // threads that look up a name or an address, which nobody here answers
  std::atomic<std::uint32_t> ran_out;  // sleeps and time-outs that a minute of this machine's time has ended
  alignas(64) ReplySlot slots[kReplySlots];
  alignas(4096) unsigned char cells[kRingCells * kCellBytes];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Nanoseconds>::is_always_lock_free);

}  // namespace ph
