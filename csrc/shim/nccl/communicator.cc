#include "shim/nccl/communicator.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "protocol/payloads.h"
#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/core/group_being_made.h"
#include "shim/core/handles.h"
#include "shim/core/json.h"
#include "shim/core/visible_devices.h"
#include "shim/nccl/failure_text.h"
#include "shim/values/value_queue.h"

namespace ph::nccl {

namespace {

HandleTable<Communicator> table(HandleTag::Nccl);

std::size_t buffer_bytes() noexcept {
  return static_cast<std::size_t>(config().number("gpu.nccl_bytes_per_communicator"));
}

bool take_buffers(int device) noexcept {
  ensure_context(device);
  return take_memory(device, buffer_bytes(), MemoryKind::Nccl);
}

ncclResult_t out_of_memory(int device) noexcept {
  return failed(ncclUnhandledCudaError,
                "Cuda failure 2 'out of memory': the buffers of a communicator on device " + std::to_string(device));
}

constexpr std::string_view kGroupPrefix = "phantora-group:";

// The ranks of the group that a communicator is made for, as text; empty: not known.
std::string group_of(const ncclConfig_t* config) {
  constexpr std::size_t kRead = offsetof(ncclConfig_t, commName) + sizeof config->commName;
  const bool has_name = config && config->size >= kRead && config->commName;
  const std::string_view name = has_name ? config->commName : "";
  if (name.starts_with(kGroupPrefix)) return std::string(name.substr(kGroupPrefix.size()));
  return group_being_made();
}

// Beside the number of a communicator with absent members. Source: sim_server/communicators/meetings.py.
constexpr std::uint64_t kFoldedCommunicator = std::uint64_t{1} << 32;

// A list in runs: how many, then first, step and count of each. Advances `words`; empty: it is none.
std::vector<std::uint32_t> take_runs(std::span<const std::uint32_t>& words) {
  std::vector<std::uint32_t> numbers;
  const std::size_t size = words.empty() ? 0 : 1 + 3 * std::size_t{words[0]};
  if (size > words.size()) return numbers;
  for (std::size_t at = 1; at < size; at += 3) {
    for (std::uint32_t i = 0; i < words[at + 2]; ++i) numbers.push_back(words[at] + i * words[at + 1]);
  }
  words = words.subspan(size);
  return numbers;
}

// The payload of the server's answer holds the rank of each member and, last, our place among them.
ncclResult_t ask(const Record& question, Reply& reply) noexcept {
  wait(question, reply);
  if (reply.status == ReplyStatus::Done) return ncclSuccess;
  return failed(ncclSystemError, "the simulator ended the run while a communicator was being made");
}

ncclResult_t announce(const Membership& membership) noexcept {
  Record question = membership.question;
  question.flags |= kWaitAnnounces;
  Reply reply;
  return ask(question, reply);
}

ncclResult_t create(ncclComm_t* out, const Reply& reply, int device) noexcept {
  std::vector<std::uint32_t> members(reply.payload_bytes / sizeof(std::uint32_t));
  if (members.empty()) return failed(ncclInternalError, "the simulator's communicator has no members");
  std::memcpy(members.data(), reply.payload, members.size() * sizeof(std::uint32_t));
  Communicator comm;
  comm.id = static_cast<std::uint32_t>(reply.value);
  comm.device = device;
  comm.rank = static_cast<int>(members.back());
  members.pop_back();
  if (reply.value & kFoldedCommunicator) {
    std::span<const std::uint32_t> words = members;
    std::vector<std::uint32_t> ranks = take_runs(words);
    std::vector<std::uint32_t> stand_ins = take_runs(words);
    if (stand_ins.size() != ranks.size()) {
      return failed(ncclInternalError, "the simulator's communicator has members that nobody stands for");
    }
    comm.stand_ins = std::make_shared<const std::vector<std::uint32_t>>(std::move(stand_ins));
    members = std::move(ranks);
  }
  if (comm.rank >= static_cast<int>(members.size()) || members[comm.rank] != global_rank()) {
    return failed(ncclInternalError, "the simulator's communicator does not hold this rank");
  }
  comm.sent.resize(members.size());
  comm.received.resize(members.size());
  comm.members = std::make_shared<const std::vector<std::uint32_t>>(std::move(members));
  *out = static_cast<ncclComm_t>(table.create(std::move(comm)));
  return *out ? ncclSuccess : failed(ncclSystemError, "no memory for a communicator's handle");
}

ncclResult_t enter(const Membership& membership) noexcept {
  const int device = membership.device;
  if (membership.joins && !take_buffers(device)) return out_of_memory(device);
  Reply reply;
  ncclResult_t result = ask(membership.question, reply);
  if (result == ncclSuccess && membership.joins) result = create(membership.out, reply, device);
  if (result != ncclSuccess && membership.joins) give_memory(device, buffer_bytes(), MemoryKind::Nccl);
  return result;
}

}  // namespace

Communicator* find(ncclComm_t handle) noexcept { return table.get(handle); }

Membership membership(ncclComm_t* out, std::uint64_t key, int size, int rank) noexcept {
  Record question{};
  question.id = static_cast<std::uint32_t>(WaitKind::CommInit);
  question.arg[CommInitWaitArg::UniqueId] = key;
  question.arg[CommInitWaitArg::Size] = static_cast<std::uint64_t>(size);
  question.arg[CommInitWaitArg::Position] = static_cast<std::uint64_t>(rank);
  question.arg[CommInitWaitArg::Gpu] = std::uint64_t{node_gpu(current_device())} + 1;
  return {out, current_device(), true, question};
}

Membership membership_of_part(Communicator& parent, int color, int key, ncclComm_t* out) noexcept {
  Record question{};
  question.id = static_cast<std::uint32_t>(WaitKind::CommSplit);
  question.device = static_cast<std::uint16_t>(parent.device);
  question.arg[CommSplitWaitArg::Parent] = parent.id;
  question.arg[CommSplitWaitArg::Color] = static_cast<std::uint64_t>(std::int64_t{color});
  question.arg[CommSplitWaitArg::Key] = static_cast<std::uint64_t>(std::int64_t{key});
  question.arg[CommSplitWaitArg::Index] = parent.splits++;
  return {out, parent.device, color != NCCL_SPLIT_NOCOLOR, question};
}

void tell_group(const Membership& membership, const ncclConfig_t* config) noexcept {
  if (!membership.joins) return;
  const std::string ranks = group_of(config);
  if (ranks.empty()) return;
  payloads::Group told;
  const Record& question = membership.question;
  if (question.id == static_cast<std::uint32_t>(WaitKind::CommInit)) {
    told.meeting = {std::to_string(question.arg[CommInitWaitArg::UniqueId])};
  } else {
    told.meeting = {std::to_string(question.arg[CommSplitWaitArg::Parent]),
                    std::to_string(question.arg[CommSplitWaitArg::Index])};
  }
  for (const char* at = ranks.c_str(); *at != '\0';) {
    char* end = nullptr;
    told.ranks.push_back(std::strtol(at, &end, 10));
    if (end == at) return;
    at = *end == ',' ? end + 1 : end;
  }
  emit_statistics(payload_text(told));
}

ncclResult_t enter(std::span<const Membership> memberships) noexcept {
  if (memberships.empty()) return ncclSuccess;
  ensure_context(memberships.front().device);  // a process that has not used its GPU before becomes a rank here
  if (!attached()) return failed(ncclSystemError, "this process drives no simulated GPU");
  become_driver();
  // The rank's socket exists before any peer can know a communicator.
  start_value_thread();
  if (memberships.size() > 1) {
    for (const Membership& membership : memberships) {
      if (const ncclResult_t result = announce(membership); result != ncclSuccess) return result;
    }
  }
  for (const Membership& membership : memberships) {
    if (const ncclResult_t result = enter(membership); result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t handle, bool abandon) noexcept {
  const Communicator* comm = find(handle);
  if (!comm) return failed(ncclInvalidArgument, "the communicator is null or was destroyed before");
  Record record{};
  record.kind = RecordKind::CommDestroy;
  record.id = comm->id;
  emit(record);
  if (abandon) abandon_communicator(comm->id);
  give_memory(comm->device, buffer_bytes(), MemoryKind::Nccl);
  table.destroy(handle);
  return ncclSuccess;
}

// FNV-1a, 64 bits. Source: the algorithm's page, parameters as published there (isthe.com/chongo/tech/comp/fnv).
std::uint64_t hash(const void* bytes, std::size_t size) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < size; ++i) {
    value = (value ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  }
  return value;
}

}  // namespace ph::nccl
