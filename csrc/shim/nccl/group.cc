#include "shim/nccl/group.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/core/failure.h"
#include "shim/graph/capture.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/failure_text.h"

namespace ph::nccl {

namespace {

struct Queued {
  Request request;
  StreamRef stream;
};

struct Group {
  int depth = 0;
  ncclResult_t result = ncclSuccess;  // of the first call in it that failed
  std::vector<Membership> memberships;
  std::vector<Queued> queued;
};

thread_local Group group;

bool is_point_to_point(NcclOpKind kind) noexcept { return kind == NcclOpKind::Send || kind == NcclOpKind::Recv; }

bool reduces(NcclOpKind kind) noexcept {
  return kind == NcclOpKind::AllReduce || kind == NcclOpKind::Reduce || kind == NcclOpKind::ReduceScatter;
}

// Whether this rank gives and takes data, so that its buffers must not be null.
bool sends(const Request& r, bool is_root) noexcept {
  if (r.kind == NcclOpKind::Recv) return false;
  return is_root || (r.kind != NcclOpKind::Broadcast && r.kind != NcclOpKind::Scatter);
}
bool receives(const Request& r, bool is_root) noexcept {
  if (r.kind == NcclOpKind::Send) return false;
  return is_root || (r.kind != NcclOpKind::Reduce && r.kind != NcclOpKind::Gather);
}

bool is_live_reduction(const Communicator& comm, ncclRedOp_t reduction) noexcept {
  const auto value = static_cast<unsigned>(reduction);
  if (value < ncclNumOps) return true;
  return value - ncclNumOps < comm.reductions.size() && comm.reductions[value - ncclNumOps].alive;
}

// NCCL launches on the communicator's device, whichever is current.
StreamRef stream_of(const Communicator& comm, const Request& r) noexcept {
  StreamRef stream = resolve_stream(r.stream);
  if (stream.id == 0) stream.device = static_cast<std::uint16_t>(comm.device);
  return stream;
}

ncclResult_t check(const Request& r) noexcept {
  const auto invalid = [&r](const std::string& what) {
    return failed(ncclInvalidArgument, std::string(r.function) + " : " + what);
  };
  const Communicator* comm = find(r.comm);
  if (!comm) return invalid("the communicator is null or was destroyed before");
  if (r.root < 0 || r.root >= comm->size()) {
    return invalid("invalid root " + std::to_string(r.root) + " (root should be in the 0.." +
                   std::to_string(comm->size()) + " range)");
  }
  if (r.type >= ncclNumTypes) return invalid("invalid type " + std::to_string(r.type));
  if (reduces(r.kind) && !is_live_reduction(*comm, r.reduction)) {
    return invalid("invalid or destroyed reduction operation " + std::to_string(r.reduction));
  }
  const StreamRef stream = stream_of(*comm, r);
  if (!stream.valid) return invalid("the stream was destroyed or never created");
  if (stream.device != comm->device) {
    return failed(ncclUnhandledCudaError, "Cuda failure 400 'invalid resource handle': " + std::string(r.function) +
                                              " on device " + std::to_string(comm->device) +
                                              " got a stream of device " + std::to_string(stream.device));
  }
  const bool is_root = comm->rank == r.root || is_point_to_point(r.kind);
  if (r.count != 0 && sends(r, is_root) && !r.send) return invalid("sendbuff is null");
  if (r.count != 0 && receives(r, is_root) && !r.receive) return invalid("recvbuff is null");
  return ncclSuccess;
}

std::uint64_t next_sequence(Communicator& comm, const Request& r) noexcept {
  if (r.kind == NcclOpKind::Send) return comm.sent[r.root]++;
  if (r.kind == NcclOpKind::Recv) return comm.received[r.root]++;
  return comm.collectives++;
}

Record operation_record(const Communicator& comm, const Queued& queued, std::uint64_t sequence) noexcept {
  const Request& r = queued.request;
  Record record{};
  record.kind = RecordKind::NcclOp;
  record.flags = static_cast<std::uint8_t>(r.kind);
  record.device = static_cast<std::uint16_t>(comm.device);
  record.stream = queued.stream.id;
  record.id = comm.id;
  record.arg[NcclOpArg::Count] = r.count;
  record.arg[NcclOpArg::Dtype] = r.type;
  record.arg[NcclOpArg::Reduction] = std::min<std::uint64_t>(r.reduction, kPremulSum);
  record.arg[NcclOpArg::Root] = static_cast<std::uint64_t>(r.root);
  record.arg[NcclOpArg::Sequence] = sequence;
  return record;
}

Reduction reduction_of(const Communicator& comm, const Request& r) {
  if (!reduces(r.kind)) return {};
  if (r.reduction >= ncclNumOps) return comm.reductions[r.reduction - ncclNumOps].reduction;
  return {static_cast<ReductionKind>(r.reduction), {}, nullptr};
}

SmallCollective value_operation(const Communicator& comm, const Request& r, std::uint64_t sequence) {
  SmallCollective op{};
  op.kind = r.kind;
  op.type = static_cast<ElementType>(r.type);
  op.reduction = reduction_of(comm, r);
  op.communicator = comm.id;
  op.sequence = sequence;
  op.members = comm.members;
  op.stand_ins = comm.stand_ins;
  op.rank = static_cast<std::uint32_t>(comm.rank);
  op.root = static_cast<std::uint32_t>(r.root);
  op.send = r.send;
  op.receive = r.receive;
  op.count = r.count;
  return op;
}

// One launch: what the group holds for one communicator and stream, in issue order.
void emit_launch(Communicator& comm, std::span<const Queued> launch, std::vector<SmallCollective>& values) {
  enter_queue(launch.front().stream);
  std::vector<Record> records(1);
  for (const Queued& queued : launch) {
    const std::uint64_t sequence = next_sequence(comm, queued.request);
    records.push_back(operation_record(comm, queued, sequence));
    values.push_back(value_operation(comm, queued.request, sequence));
    if (carries_values(values.back())) records.front().flags = kNcclLaunchSendsValues;
  }
  Record& head = records.front();
  head.kind = RecordKind::NcclLaunch;
  head.device = static_cast<std::uint16_t>(comm.device);
  head.stream = launch.front().stream.id;
  head.id = comm.id;
  head.arg[NcclLaunchArg::Operations] = launch.size();
  emit(records, true);
}

ncclResult_t issue(std::vector<Queued> queued) noexcept;

// Every launch of a graph is a new operation of the communicator, with a sequence number of its own.
bool capture_launch(std::span<const Queued> launch) {
  return capture_work(
      launch.front().stream, NodeKind::Kernel, [queued = std::vector(launch.begin(), launch.end())](StreamRef stream) {
        std::vector<Queued> again = queued;
        for (Queued& one : again) one.stream = stream;
        if (issue(std::move(again)) != ncclSuccess) {
          fail_usage("a CUDA graph was launched whose communicator has been destroyed since it was captured");
        }
      });
}

ncclResult_t issue(std::vector<Queued> queued) noexcept {
  become_driver();
  std::vector<SmallCollective> values;
  const auto same_launch = [](const Queued& a, const Queued& b) {
    return a.request.comm == b.request.comm && a.stream.id == b.stream.id;
  };
  for (auto first = queued.begin(); first != queued.end();) {
    const auto rest = std::stable_partition(
        first, queued.end(), [&, head = *first](const Queued& other) { return same_launch(head, other); });
    if (capture_launch({first, rest})) {
      first = rest;
      continue;
    }
    Communicator* comm = find(first->request.comm);
    if (!comm) return failed(ncclInvalidArgument, "a communicator was destroyed inside a group that uses it");
    emit_launch(*comm, {first, rest}, values);
    first = rest;
  }
  issue_collectives(std::move(values));
  return ncclSuccess;
}

}  // namespace

HostCost cost_of_operation(ncclComm_t comm, cudaStream_t stream) noexcept {
  const bool joins = group.depth > 0 && std::ranges::any_of(group.queued, [=](const Queued& queued) {
                       return queued.request.comm == comm && queued.request.stream == stream;
                     });
  return joins ? HostCost::Light : HostCost::Collective;
}

ncclResult_t submit(const Request& request) noexcept {
  const ncclResult_t result = check(request);
  if (result != ncclSuccess) {
    if (group.depth > 0 && group.result == ncclSuccess) group.result = result;
    return result;
  }
  // NCCL drops empty collectives; empty sends and receives keep their place among those of the pair.
  if (request.count == 0 && !is_point_to_point(request.kind)) return ncclSuccess;
  const Queued queued{request, stream_of(*find(request.comm), request)};
  if (group.depth == 0) return issue({queued});
  group.queued.push_back(queued);
  return ncclSuccess;
}

ncclResult_t submit(const Membership& membership) noexcept {
  if (group.depth == 0) return enter({&membership, 1});
  group.memberships.push_back(membership);
  return ncclSuccess;
}

void start_group() noexcept { ++group.depth; }

ncclResult_t end_group() noexcept {
  if (group.depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group.depth > 0) return ncclSuccess;
  ncclResult_t result = std::exchange(group.result, ncclSuccess);
  const std::vector<Membership> memberships = std::exchange(group.memberships, {});
  std::vector<Queued> queued = std::exchange(group.queued, {});
  if (result == ncclSuccess) result = enter(memberships);
  return result == ncclSuccess ? issue(std::move(queued)) : result;
}

}  // namespace ph::nccl
