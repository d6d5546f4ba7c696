// Small collectives carry real data. Whether one is small depends on its size alone, which all its ranks agree
// on; whether its inputs are known they tell each other. A result is known when everything it needs was.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/records.h"
#include "shim/values/reductions.h"

namespace ph {

struct Reduction {
  ReductionKind kind = ReductionKind::Sum;
  std::array<unsigned char, 8> factor{};       // PremulSum: this rank's factor, in the operation's type,
  const void* factor_on_device = nullptr;      // or where it will be when the operation runs
};

// One NCCL operation of this rank; `count` and `root` as in NCCL's prototypes (`root`: the peer of Send and Recv).
struct SmallCollective {
  NcclOpKind kind;
  ElementType type;
  Reduction reduction;
  std::uint64_t communicator;
  std::uint64_t sequence;
  std::shared_ptr<const std::vector<std::uint32_t>> members;  // the rank of each
  // The place of the member that stands for each: an absent one has that one's values. Null: none is absent.
  std::shared_ptr<const std::vector<std::uint32_t>> stand_ins;
  std::uint32_t rank;  // ours, in the communicator
  std::uint32_t root;
  const void* send;
  void* receive;
  std::size_t count;
};

// Whether its ranks send each other what they know.
PH_EXPORT bool carries_values(const SmallCollective& op) noexcept;
// Where this thread's part of what it gathers next is; null: nowhere. Absent members may send the same.
PH_EXPORT void set_own_part(const void* part) noexcept;
// The operations of one NCCL group, in issue order. Those that are not small only make their results unknown.
PH_EXPORT void issue_collectives(std::vector<SmallCollective> operations) noexcept;

}  // namespace ph
