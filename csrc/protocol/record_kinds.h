// What one rank tells the simulator: every kind of record, and where it keeps what it says.
// Made by tools/record_schema.py from sim_server/records/schema.py, which says what it means.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ph {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kCellBytes = 64;
inline constexpr std::size_t kRecordArgs = 5;
inline constexpr std::uint8_t kFirstWithoutPayload = 16;
inline constexpr std::uint64_t kPremulSum = 5;

enum class RecordKind : std::uint8_t {
  // the work of a kernel or a library call, under a number
  Signature = 1,
  // a line of the program, under a number
  Site = 2,
  // the program has come to a mark; without a payload the line is its name
  Marker = 3,
  // memory statistics of the framework, or counts of calls
  Statistics = 4,
  // a call that is not modelled; the rank may end with it
  Unsupported = 5,
  // a stream is made
  StreamCreate = 16,
  // a stream is gone
  StreamDestroy = 17,
  // a kernel or a library call is launched
  Kernel = 18,
  // memory is copied
  Copy = 19,
  // memory is filled
  Fill = 20,
  // an event is recorded
  EventRecord = 21,
  // a stream waits for an event
  StreamWait = 22,
  // a stream calls a function of the host
  HostFunction = 23,
  // NCCL launches the operations that follow at once
  NcclLaunch = 24,
  // one operation of a launch
  NcclOp = 25,
  // the rank waits for an answer
  Wait = 32,
  // a communicator is gone
  CommDestroy = 33,
  // the program ends
  Exit = 34,
  // device memory is taken
  Alloc = 48,
  // device memory is given back
  Free = 49,
  // there is not as much as was asked for
  OutOfMemory = 50,
  // the program has read values that nobody knows
  SyntheticRead = 51,
};

enum class MarkerKind : std::uint32_t {
  // an optimizer's step
  OptimizerStep = 1,
  // the program's own mark
  Iteration = 2,
  // the beginning of a range of NVTX
  RangePush = 3,
  // the end of a range of NVTX
  RangePop = 4,
  // a line that reads a clock
  ClockRead = 5,
  // the end of a backward pass that a line asked for
  Backward = 6,
  // a step of torch.profiler
  ProfilerStep = 7,
  // a step of a learning-rate scheduler
  SchedulerStep = 8,
  // the end of the function that `--iteration call:` names
  Call = 9,
};

enum StreamFlags : std::uint8_t { kStreamNonBlocking = 1 };

enum EventFlags : std::uint8_t { kEventUntimed = 1 };

enum NcclLaunchFlags : std::uint8_t { kNcclLaunchSendsValues = 1 };

enum class CopyKind : std::uint32_t {
  HostToDevice = 1,
  DeviceToHost = 2,
  DeviceToDevice = 3,
  PeerToPeer = 4,
  HostToHost = 5,
};

enum CopyFlags : std::uint8_t { kCopyPageable = 1 };

enum class MemoryKind : std::uint32_t {
  // the program's
  Device = 1,
  // the program's, on the host
  PinnedHost = 2,
  // of the CUDA context
  Context = 3,
  // buffers of NCCL
  Nccl = 4,
  // workspaces of other libraries
  Library = 5,
  // the program's managed memory, while it is on the device
  Managed = 6,
};

enum class NcclOpKind : std::uint8_t {
  AllReduce = 1,
  Broadcast = 2,
  Reduce = 3,
  AllGather = 4,
  ReduceScatter = 5,
  Send = 6,
  Recv = 7,
  AllToAll = 8,
  Gather = 9,
  Scatter = 10,
};

enum WaitFlags : std::uint8_t { kWaitBackground = 1, kWaitAnnounces = 2, kWaitSucceeds = 4, kWaitPolled = 8 };

enum class WaitKind : std::uint32_t {
  // all work of the stream so far is done
  Stream = 1,
  // the event is done
  Event = 2,
  // all work of all streams of the device is done
  Device = 3,
  // as STREAM, but answered at once: DONE or NOT_READY
  QueryStream = 4,
  // as EVENT, but answered at once: DONE or NOT_READY
  QueryEvent = 5,
  // nanoseconds from one event to another (int64), as `value`
  Elapsed = 6,
  // the members of a new communicator have come; its number as `value`
  CommInit = 7,
  // the members of a communicator have split it; the part's number, or 0
  CommSplit = 8,
  // the simulation has reached the rank's clock: it was set aside while it waited outside, or its program sleeps
  Resume = 9,
  // as RESUME, before the rank does what others can notice by other means than the GPU: from then on those that were
  // set aside count as running again
  Outside = 10,
  // a thread waits until a deadline at most; always in the background. The slot is that of all alarms of the rank:
  // whenever one has run out, it is answered with that time
  Alarm = 11,
  // a helper thread waits no longer in this slot: unless it has been answered, it is now, with NOT_READY
  Withdraw = 12,
  // as EVENT: until then the stream's queue of launches is full
  LaunchQueue = 13,
  // answered at once: when work with an `activity` began and ended that has ended since the last such question, as
  // much as fits an answer; what is left as `value`
  Activities = 14,
};

enum class ReplyStatus : std::uint32_t {
  Done = 0,
  NotReady = 1,
  Stop = 2,
};

struct alignas(kCellBytes) Record {
  RecordKind kind;
  std::uint8_t flags;
  std::uint16_t device;
  std::uint32_t stream;
  std::uint64_t host_gap_ns;
  std::uint32_t id;
  std::uint32_t site;
  std::uint64_t arg[kRecordArgs];
};
static_assert(sizeof(Record) == kCellBytes);

// Positions in `arg`, by the kind of record.
struct PayloadArg {
  enum : std::size_t { Bytes = 0 };
};
struct StreamCreateArg {
  enum : std::size_t { Priority = 0 };
};
struct KernelArg {
  enum : std::size_t { Scope = 3, Activity = 4 };
};
struct CopyArg {
  enum : std::size_t { Bytes = 0, Scope = 3, Activity = 4 };
};
struct FillArg {
  enum : std::size_t { Bytes = 0, Scope = 3, Activity = 4 };
};
struct EventRecordArg {
  enum : std::size_t { Instance = 0, Released = 1 };
};
struct StreamWaitArg {
  enum : std::size_t { Instance = 0 };
};
struct NcclLaunchArg {
  enum : std::size_t { Operations = 0, Scope = 3, Activity = 4 };
};
struct NcclOpArg {
  enum : std::size_t { Count = 0, Dtype = 1, Reduction = 2, Root = 3, Sequence = 4 };
};
struct WaitArg {
  enum : std::size_t { Slot = 4 };
};
struct ExitArg {
  enum : std::size_t { Status = 0 };
};
struct AllocArg {
  enum : std::size_t { Bytes = 0, Pointer = 1, UsedBytes = 2 };
};
struct FreeArg {
  enum : std::size_t { Bytes = 0, Pointer = 1, UsedBytes = 2 };
};
struct OutOfMemoryArg {
  enum : std::size_t { Bytes = 0, FreeBytes = 1, UsedBytes = 2 };
};
struct SyntheticReadArg {
  enum : std::size_t { Bytes = 0 };
};

// And by the kind of wait.
struct EventWaitArg {
  enum : std::size_t { Instance = 0 };
};
struct QueryEventWaitArg {
  enum : std::size_t { Instance = 0 };
};
struct ElapsedWaitArg {
  enum : std::size_t { First = 0, Second = 1 };
};
struct CommInitWaitArg {
  enum : std::size_t { UniqueId = 0, Size = 1, Position = 2, Gpu = 3 };
};
struct CommSplitWaitArg {
  enum : std::size_t { Parent = 0, Color = 1, Key = 2, Index = 3 };
};
struct ResumeWaitArg {
  enum : std::size_t { ValuesNs = 0, LastsNs = 1 };
};
struct AlarmWaitArg {
  enum : std::size_t { DeadlineNs = 0, Withdrawn = 1 };
};
struct LaunchQueueWaitArg {
  enum : std::size_t { Instance = 0 };
};

}  // namespace ph
