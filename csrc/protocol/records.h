// The record stream: what one rank tells the simulator, in the order in which its program did it.
//
// A record says what the GPU was asked to do and how much host time passed since the record before.
// It holds no duration and no absolute time: those are the server's business, so that the same stream
// can be simulated again under another GPU, network or setting. The stream is complete, typed and
// versioned; every reader (engine, data file, reports) includes this header or mirrors it in
// sim_server/records, which a test compares with this file's layout.
//
// Rules: plain C++ with fixed-width integers, no dependency; little endian; one cell is 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ph {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kCellBytes = 64;

enum class RecordKind : std::uint8_t {
  // Announcements: `id` is defined by the payload that follows in whole cells (arg[0] = payload bytes).
  Signature = 1,   // id: signature id; payload: JSON object, see docs/records.md
  Site = 2,        // id: call-site id; payload: "file:line function"
  Marker = 3,      // id: MarkerKind; payload: name; without one the Python line is its name
  Statistics = 4,  // payload: JSON object of the framework's memory statistics or of call counts
  Unsupported = 5, // payload: see docs/records.md; the rank may end with it

  // Work on a stream.
  StreamCreate = 16,  // stream; flags: StreamFlags; arg[0]: priority (as int64)
  StreamDestroy = 17, // stream
  Kernel = 18,        // stream; id: signature id
  Copy = 19,          // stream; id: CopyKind; flags: CopyFlags; arg[0]: bytes; arg[1]: peer device ordinal
  Fill = 20,          // stream; arg[0]: bytes
  EventRecord = 21,   // stream; flags: EventFlags; arg[0]: event instance (1, 2, 3 ... per rank, never reused);
                      // arg[1] to arg[4]: timed instances that nobody can ask about any more, 0: none
  StreamWait = 22,    // stream; arg[0]: event instance
  HostFunction = 23,  // stream
  NcclLaunch = 24,    // stream; id: communicator; arg[0]: number of NcclOp records that follow at once
  NcclOp = 25,        // id: communicator; flags: NcclOpKind; see the fields below

  // Host.
  Wait = 32,          // the rank waits for an answer; flags: WaitFlags; id: WaitKind; arg[4]: reply slot
  CommDestroy = 33,   // id: communicator
  Exit = 34,          // arg[0]: exit status as the program gave it

  // Memory of a device.
  Alloc = 48,         // id: MemoryKind; arg[0]: bytes; arg[1]: device pointer; arg[2]: bytes in use afterwards
  Free = 49,          // id: MemoryKind; arg[0]: bytes; arg[1]: device pointer; arg[2]: bytes in use afterwards
  OutOfMemory = 50,   // arg[0]: bytes asked; arg[1]: bytes free; arg[2]: bytes in use
  SyntheticRead = 51, // arg[0]: bytes read back that no rule produced
};

enum class MarkerKind : std::uint32_t {
  OptimizerStep = 1,
  Iteration = 2,     // the program's own mark
  RangePush = 3,     // NVTX
  RangePop = 4,
  ClockRead = 5,     // a line of the program has read a clock
  Backward = 6,      // a backward pass that a line of the program asked for has been issued
  ProfilerStep = 7,  // torch.profiler's step
  SchedulerStep = 8, // a learning-rate scheduler's step
  Call = 9,          // the function that `--iteration call:` names has returned
};

enum StreamFlags : std::uint8_t { kStreamNonBlocking = 1 };

enum EventFlags : std::uint8_t { kEventUntimed = 1 };  // Elapsed never asks for it

enum class CopyKind : std::uint32_t {
  HostToDevice = 1,
  DeviceToHost = 2,
  DeviceToDevice = 3,
  PeerToPeer = 4,
  HostToHost = 5
};
enum CopyFlags : std::uint8_t { kCopyPageable = 1 };

enum class MemoryKind : std::uint32_t { Device = 1, PinnedHost = 2, Context = 3, Nccl = 4, Library = 5 };

// NcclOp: arg[0]: count of elements (send count per rank where the operation has one per rank, as in NCCL's
// prototype); arg[1]: data type (ncclDataType_t); arg[2]: reduction (ncclRedOp_t value, kPremulSum for custom);
// arg[3]: root or peer, a rank of the communicator; arg[4]: sequence number: for collectives the position in
// the communicator, for Send and Recv the position among those to or from that peer.
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
inline constexpr std::uint64_t kPremulSum = 5;

enum WaitFlags : std::uint8_t {
  kWaitBackground = 1, // asked by a helper thread: the rank itself is not held up by it
};

enum class WaitKind : std::uint32_t {
  // Payload of the answer to a wait that concerns this rank alone, all but CommInit and CommSplit: EventNews.
  Stream = 1,       // stream: until all its work so far is done
  Event = 2,        // arg[0]: event instance
  Device = 3,       // device: until all work of all its streams is done
  QueryStream = 4,  // stream; answered at once: status Done or NotReady
  QueryEvent = 5,   // arg[0]: event instance; likewise
  Elapsed = 6,      // arg[0], arg[1]: event instances; value: nanoseconds from first to second (as int64)
  CommInit = 7,     // arg[0]: hash of the unique id; arg[1]: size; arg[2]: rank in it; value: communicator
  CommSplit = 8,    // id's communicator in arg[0]; arg[1]: colour (int64, -1: none); arg[2]: key (int64);
                    // arg[3]: how many splits of it came before; value: communicator or 0
  Resume = 9,       // until the simulation has reached the rank's clock: it was set aside while it waited
                    // outside, or its program sleeps; value unused
  Outside = 10,     // likewise, before the rank does what other ranks can notice by other means than the GPU:
                    // those that were set aside count as running again, from then on
  Alarm = 11,       // arg[0]: a deadline in virtual time, the one absolute time there is: a thread waits, but not
                    // beyond it; arg[1]: 1: it does no longer. Always in the background. The slot is that of all
                    // alarms of the rank: whenever one has run out, it is answered with that time
  Withdraw = 12,    // a helper thread waits no longer in this slot: if it has not been answered, it is now, with
                    // status NotReady
  LaunchQueue = 13, // arg[0]: event instance, as Event: the stream's queue of launches is full until then
};

// What is known about the events of one stream, so that the rank need not ask: programs poll events all the time.
struct EventNews {
  std::uint32_t stream;
  std::uint32_t device;
  std::uint64_t done;           // this instance, and those before it, are done
  std::uint64_t pending;        // this one, and those after it, are not done before `not_before_ns`; 0: none
  std::uint64_t not_before_ns;
};
static_assert(sizeof(EventNews) == 32);

enum class ReplyStatus : std::uint32_t { Done = 0, NotReady = 1, Stop = 2 };

struct alignas(kCellBytes) Record {
  RecordKind kind;
  std::uint8_t flags;
  std::uint16_t device;      // CUDA device ordinal as the rank sees it
  std::uint32_t stream;      // stream id in the rank; 0 is the legacy default stream of `device`
  std::uint64_t host_gap_ns; // host time since the record before
  std::uint32_t id;
  std::uint32_t site;        // Python call site, 0: unknown
  std::uint64_t arg[5];
};
static_assert(sizeof(Record) == kCellBytes);

inline constexpr std::size_t payload_cells(std::size_t payload_bytes) {
  return (payload_bytes + kCellBytes - 1) / kCellBytes;
}

inline constexpr bool has_payload(RecordKind kind) { return static_cast<std::uint8_t>(kind) < 16; }

}  // namespace ph
