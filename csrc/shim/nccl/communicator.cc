#include "shim/nccl/communicator.h"

#include <cstring>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/device.h"
#include "shim/core/handles.h"
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

// Asks the server, which answers when every rank has asked. The payload of its answer holds the members.
ncclResult_t ask(Record record, WaitKind kind, Reply& reply) noexcept {
  become_driver();
  // The rank's socket exists before any peer can know the communicator.
  start_value_thread();
  record.id = static_cast<std::uint32_t>(kind);
  wait(record, reply);
  if (reply.status == ReplyStatus::Done) return ncclSuccess;
  return failed(ncclSystemError, "the simulator ended the run while a communicator was being made");
}

ncclResult_t create(ncclComm_t* out, const Reply& reply, int device) noexcept {
  std::vector<std::uint32_t> members(reply.payload_bytes / sizeof(std::uint32_t));
  std::memcpy(members.data(), reply.payload, members.size() * sizeof(std::uint32_t));
  Communicator comm;
  comm.id = static_cast<std::uint32_t>(reply.value);
  comm.device = device;
  while (comm.rank < static_cast<int>(members.size()) && members[comm.rank] != global_rank()) ++comm.rank;
  if (comm.rank == static_cast<int>(members.size())) {
    return failed(ncclInternalError, "the simulator's communicator does not hold this rank");
  }
  comm.sent.resize(members.size());
  comm.received.resize(members.size());
  comm.members = std::make_shared<const std::vector<std::uint32_t>>(std::move(members));
  *out = static_cast<ncclComm_t>(table.create(std::move(comm)));
  return *out ? ncclSuccess : failed(ncclSystemError, "no memory for a communicator's handle");
}

}  // namespace

Communicator* find(ncclComm_t handle) noexcept { return table.get(handle); }

ncclResult_t join(ncclComm_t* out, std::uint64_t key, int size, int rank) noexcept {
  const int device = current_device();
  ensure_context(device);  // a process that has done nothing else with its GPU becomes a rank here
  if (!attached()) return failed(ncclSystemError, "this process drives no simulated GPU");
  if (!take_buffers(device)) return out_of_memory(device);
  Record record{};
  record.arg[CommInitWaitArg::UniqueId] = key;
  record.arg[CommInitWaitArg::Size] = static_cast<std::uint64_t>(size);
  record.arg[CommInitWaitArg::Position] = static_cast<std::uint64_t>(rank);
  Reply reply;
  ncclResult_t result = ask(record, WaitKind::CommInit, reply);
  if (result == ncclSuccess) result = create(out, reply, device);
  if (result != ncclSuccess) give_memory(device, buffer_bytes(), MemoryKind::Nccl);
  return result;
}

ncclResult_t split(Communicator& parent, int color, int key, ncclComm_t* out) noexcept {
  *out = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR && !take_buffers(parent.device)) return out_of_memory(parent.device);
  Record record{};
  record.device = static_cast<std::uint16_t>(parent.device);
  record.arg[CommSplitWaitArg::Parent] = parent.id;
  record.arg[CommSplitWaitArg::Color] = static_cast<std::uint64_t>(std::int64_t{color});
  record.arg[CommSplitWaitArg::Key] = static_cast<std::uint64_t>(std::int64_t{key});
  record.arg[CommSplitWaitArg::Index] = parent.splits++;
  Reply reply;
  const ncclResult_t result = ask(record, WaitKind::CommSplit, reply);
  if (result != ncclSuccess || color == NCCL_SPLIT_NOCOLOR) return result;
  return create(out, reply, parent.device);
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
