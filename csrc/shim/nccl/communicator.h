// Communicators of this rank, behind ncclComm_t: one for each of its GPUs that is a member.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocol/records.h"
#include "shim/values/small_collectives.h"
#include "shim/nccl/nccl_types.h"

namespace ph::nccl {

// A custom reduction made by ncclRedOpCreatePreMulSum; its ncclRedOp_t is ncclNumOps plus its index.
struct CustomReduction {
  bool alive = false;
  ncclDataType_t type = ncclInt8;
  Reduction reduction;
};

struct Communicator {
  std::uint32_t id = 0;  // the server's, the same on all its ranks
  int rank = 0;
  int device = 0;
  std::shared_ptr<const std::vector<std::uint32_t>> members;  // the rank of each
  std::shared_ptr<const std::vector<std::uint32_t>> stand_ins;  // the place of who stands for each; null: all run
  std::uint32_t splits = 0;                 // ncclCommSplit calls so far
  std::uint32_t shrinks = 0;
  std::uint64_t collectives = 0;            // issued so far
  std::vector<std::uint64_t> sent;          // to each peer
  std::vector<std::uint64_t> received;      // from each peer
  std::vector<CustomReduction> reductions;

  int size() const noexcept { return static_cast<int>(members->size()); }
};

// Null: no live communicator.
Communicator* find(ncclComm_t handle) noexcept;

// A communicator that this rank has asked for: where its handle goes, and the question that the server answers when all
// its ranks have asked.
struct Membership {
  ncclComm_t* out;
  int device;
  bool joins;  // false: NCCL_SPLIT_NOCOLOR, `*out` stays null
  Record question;
};

// Of the ranks that call with the same `key`, on the current device.
Membership membership(ncclComm_t* out, std::uint64_t key, int size, int rank) noexcept;
// As ncclCommSplit.
Membership membership_of_part(Communicator& parent, int color, int key, ncclComm_t* out) noexcept;
// Tells which ranks the communicator is of that is asked for next, as its name says, or else whatever the program does
// at the time (phantora_py/rank/groups.py).
void tell_group(const Membership& membership, const ncclConfig_t* config) noexcept;
// Waits for the ranks of all of them: other ranks may ask for them in another order.
ncclResult_t enter(std::span<const Membership> memberships) noexcept;

// `abandon`: its small collectives that still wait for peers are given up.
ncclResult_t destroy(ncclComm_t handle, bool abandon) noexcept;

// A key from the bytes that its ranks share.
std::uint64_t hash(const void* bytes, std::size_t size) noexcept;

}  // namespace ph::nccl
