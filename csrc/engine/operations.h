// Matches the communication operations of the ranks. Collectives meet by (communicator, sequence number); Send and
// Recv by (communicator, source, destination, sequence number). Knows nothing of how long anything takes.
#pragma once

#include <unordered_map>
#include <vector>

#include "engine/common.h"
#include "engine/history.h"

namespace ph {

// One GPU of a communicator: its number in the run, and the rank that drives it as this device. A rank may drive several.
// Nobody waits for one that is not `present`: its rank is absent.
struct Member {
  std::uint32_t gpu;
  std::uint32_t rank;
  std::uint16_t device;
  bool present = true;
};

// One member's part in an operation, as it reaches the head of its stream.
struct Arrival {
  std::uint32_t rank;
  std::uint16_t device;
  Index launch;             // of that rank
  std::uint64_t launch_id;  // of the engine
  NcclOpKind kind;
  std::uint32_t comm;
  std::array<std::uint64_t, kRecordArgs> args;  // as in NcclOp
  std::uint32_t site;
};

struct Participant {
  std::uint32_t rank;
  std::uint32_t gpu;
  bool present;
  bool arrived = false;
  Index launch = kNone;
  NcclOpKind kind{};
  Nanoseconds arrival_ns = 0;
  std::uint32_t site = 0;
};

struct Operation {
  NcclOpKind kind;  // Send for a Send and its Recv
  std::uint32_t comm;
  std::uint64_t count;
  std::uint64_t dtype;
  std::uint64_t reduction;
  std::uint64_t root;
  std::uint64_t sequence;
  std::vector<Participant> participants;  // member order; source, destination for a Send
  std::uint32_t missing;
};

class Operations {
 public:
  explicit Operations(const Sites& sites) : sites_(sites) {}

  void define(std::uint32_t comm, std::vector<Member> members);

  // Adds to `stop` a Ready when it was the last participant, or a mismatch.
  void arrive(const Arrival& arrival, Nanoseconds now_ns, Stop& stop);

  // Removes an operation that was Ready.
  Operation take(std::uint64_t operation);
  const Operation* find_ready(std::uint64_t operation) const;

  std::vector<Pending> pending() const;  // those not ready, by (communicator, sequence, source, destination)

 private:
  struct Communicator {
    std::vector<Member> members;
    std::unordered_map<std::uint64_t, std::uint32_t> position;  // by rank, or by rank and device where it has several
  };
  struct Key {
    std::uint32_t comm;
    std::uint64_t channel;  // 0: collective; else 1 + the pair of a Send
    std::uint64_t sequence;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      std::uint64_t hash = key.comm;
      for (const std::uint64_t part : {key.channel, key.sequence})
        hash = (hash ^ part) * 0x9e3779b97f4a7c15 + (hash >> 29);
      return hash;
    }
  };

  const Communicator& communicator(const Arrival& arrival) const;
  static std::uint32_t position(const Communicator& comm, const Arrival& arrival);
  Ready ready(const Operation& operation, std::uint64_t launch_id, Nanoseconds now_ns);

  std::string mismatch(const Operation& operation, const Arrival& arrival) const;

  const Sites& sites_;
  std::unordered_map<std::uint32_t, Communicator> communicators_;
  std::unordered_map<Key, Operation, KeyHash> open_;
  std::unordered_map<std::uint64_t, Operation> ready_;
  std::uint64_t next_operation_ = 0;
};

}  // namespace ph
