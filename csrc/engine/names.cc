#include "engine/names.h"

#include <iterator>

namespace ph {

namespace {

// Null for a value that records.h does not define.
const char* known_name(RecordKind kind) {
  switch (kind) {
    case RecordKind::Signature: return "Signature";
    case RecordKind::Site: return "Site";
    case RecordKind::Marker: return "Marker";
    case RecordKind::Statistics: return "Statistics";
    case RecordKind::Unsupported: return "Unsupported";
    case RecordKind::StreamCreate: return "StreamCreate";
    case RecordKind::StreamDestroy: return "StreamDestroy";
    case RecordKind::Kernel: return "Kernel";
    case RecordKind::Copy: return "Copy";
    case RecordKind::Fill: return "Fill";
    case RecordKind::EventRecord: return "EventRecord";
    case RecordKind::StreamWait: return "StreamWait";
    case RecordKind::HostFunction: return "HostFunction";
    case RecordKind::NcclLaunch: return "NcclLaunch";
    case RecordKind::NcclOp: return "NcclOp";
    case RecordKind::Wait: return "Wait";
    case RecordKind::CommDestroy: return "CommDestroy";
    case RecordKind::Exit: return "Exit";
    case RecordKind::Alloc: return "Alloc";
    case RecordKind::Free: return "Free";
    case RecordKind::OutOfMemory: return "OutOfMemory";
    case RecordKind::SyntheticRead: return "SyntheticRead";
  }
  return nullptr;
}

}  // namespace

bool is_record_kind(RecordKind kind) { return known_name(kind) != nullptr; }

std::string name(RecordKind kind) {
  const char* known = known_name(kind);
  return known ? known : "kind " + std::to_string(static_cast<unsigned>(kind));
}

std::string name(WaitKind kind) {
  switch (kind) {
    case WaitKind::Stream: return "stream synchronise";
    case WaitKind::Event: return "event synchronise";
    case WaitKind::Device: return "device synchronise";
    case WaitKind::QueryStream: return "stream query";
    case WaitKind::QueryEvent: return "event query";
    case WaitKind::Elapsed: return "elapsed time";
    case WaitKind::CommInit: return "communicator init";
    case WaitKind::CommSplit: return "communicator split";
    case WaitKind::Resume: return "resume";
    case WaitKind::Outside: return "turn to act outside";
    case WaitKind::Alarm: return "alarm";
    case WaitKind::Withdraw: return "withdrawal";
    case WaitKind::LaunchQueue: return "room in the launch queue";
    case WaitKind::Activities: return "times of finished work";
  }
  return "wait " + std::to_string(static_cast<unsigned>(kind));
}

std::string name(NcclOpKind kind) {
  switch (kind) {
    case NcclOpKind::AllReduce: return "AllReduce";
    case NcclOpKind::Broadcast: return "Broadcast";
    case NcclOpKind::Reduce: return "Reduce";
    case NcclOpKind::AllGather: return "AllGather";
    case NcclOpKind::ReduceScatter: return "ReduceScatter";
    case NcclOpKind::Send: return "Send";
    case NcclOpKind::Recv: return "Recv";
    case NcclOpKind::AllToAll: return "AllToAll";
    case NcclOpKind::Gather: return "Gather";
    case NcclOpKind::Scatter: return "Scatter";
  }
  return "operation " + std::to_string(static_cast<unsigned>(kind));
}

// Source of both lists: nccl.h of NCCL 2.27, in words of PyTorch.
std::string name(Liveness::State state) {
  switch (state) {
    case Liveness::State::Running: return "Running";
    case Liveness::State::Waiting: return "Waiting";
    case Liveness::State::HelpersRun: return "HelpersRun";
    case Liveness::State::Outside: return "Outside";
    case Liveness::State::Returning: return "Returning";
    case Liveness::State::ReturningHelpersRun: return "ReturningHelpersRun";
    case Liveness::State::Gone: return "Gone";
  }
  throw BrokenInvariant("a state without a name");
}

std::string name(Liveness::Cause cause) {
  switch (cause) {
    case Liveness::Cause::Asks: return "Asks";
    case Liveness::Cause::Told: return "Told";
    case Liveness::Cause::SetAside: return "SetAside";
    case Liveness::Cause::Woken: return "Woken";
    case Liveness::Cause::Alarm: return "Alarm";
    case Liveness::Cause::Exits: return "Exits";
  }
  throw BrokenInvariant("a cause without a name");
}

std::string data_type_name(std::uint64_t type) {
  static constexpr const char* kNames[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",         "uint64",
                                           "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"};
  return type < std::size(kNames) ? kNames[type] : "type " + std::to_string(type);
}

std::string reduction_name(std::uint64_t reduction) {
  static constexpr const char* kNames[] = {"sum", "product", "max", "min", "avg"};
  if (reduction == kPremulSum) return "premultiplied sum";
  return reduction < std::size(kNames) ? kNames[reduction] : "reduction " + std::to_string(reduction);
}

}  // namespace ph
