"""What one rank tells the simulator: every kind of record, and where it keeps what it says.

The one schema of the record stream. The C++ header csrc/protocol/record_kinds.h and the page
docs/record-kinds.md are made from it (tools/record_schema.py), the writer follows it
(sim_server.records.writer). It holds no behaviour.

A record says what the GPU was asked to do and how much host time passed since the record before. It
holds no duration and, but for a deadline, no absolute time: those are the server's business, so
that the same stream can be simulated again under another GPU, network or setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

PROTOCOL_VERSION: Final = 1
CELL_BYTES: Final = 64
ARGS: Final = 5
"""Words of a record beside its fields."""
FIRST_WITHOUT_PAYLOAD: Final = 16
"""Records of lower kinds announce something: a payload of `bytes` bytes follows in whole cells."""
PREMUL_SUM: Final = 5
"""The reduction of every operator that the program has made."""


class _Told(IntEnum):
    """Members that say what they are."""

    what: str

    def __new__(cls, value: int, what: str = "") -> _Told:
        member = int.__new__(cls, value)
        member._value_ = value
        member.what = what
        return member


class RecordKind(_Told):
    """What a record says."""

    SIGNATURE = 1, "the work of a kernel or a library call, under a number"
    SITE = 2, "a line of the program, under a number"
    MARKER = 3, "the program has come to a mark; without a payload the line is its name"
    STATISTICS = 4, "memory statistics of the framework, or counts of calls"
    UNSUPPORTED = 5, "a call that is not modelled; the rank may end with it"
    STREAM_CREATE = 16, "a stream is made"
    STREAM_DESTROY = 17, "a stream is gone"
    KERNEL = 18, "a kernel or a library call is launched"
    COPY = 19, "memory is copied"
    FILL = 20, "memory is filled"
    EVENT_RECORD = 21, "an event is recorded"
    STREAM_WAIT = 22, "a stream waits for an event"
    HOST_FUNCTION = 23, "a stream calls a function of the host"
    NCCL_LAUNCH = 24, "NCCL launches the operations that follow at once"
    NCCL_OP = 25, "one operation of a launch"
    WAIT = 32, "the rank waits for an answer"
    COMM_DESTROY = 33, "a communicator is gone"
    EXIT = 34, "the program ends"
    ALLOC = 48, "device memory is taken"
    FREE = 49, "device memory is given back"
    OUT_OF_MEMORY = 50, "there is not as much as was asked for"
    SYNTHETIC_READ = 51, "the program has read values that nobody knows"

    @property
    def has_payload(self) -> bool:
        """Whether `arg[0]` bytes of payload follow, in whole cells."""
        return self < FIRST_WITHOUT_PAYLOAD


class MarkerKind(_Told):
    """What the program has come to."""

    OPTIMIZER_STEP = 1, "an optimizer's step"
    ITERATION = 2, "the program's own mark"
    RANGE_PUSH = 3, "the beginning of a range of NVTX"
    RANGE_POP = 4, "the end of a range of NVTX"
    CLOCK_READ = 5, "a line that reads a clock"
    BACKWARD = 6, "the end of a backward pass that a line asked for"
    PROFILER_STEP = 7, "a step of torch.profiler"
    SCHEDULER_STEP = 8, "a step of a learning-rate scheduler"
    CALL = 9, "the end of the function that `--iteration call:` names"


class StreamFlags(IntFlag):
    """How a stream is made."""

    NON_BLOCKING = 1


class EventFlags(IntFlag):
    """How an event is recorded: nobody asks for the time of an untimed one."""

    UNTIMED = 1


class NcclLaunchFlags(IntFlag):
    """What a launch does beside its work: ranks send each other values of small tensors."""

    SENDS_VALUES = 1


class CopyKind(_Told):
    """From where to where memory is copied."""

    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    PEER_TO_PEER = 4
    HOST_TO_HOST = 5


class CopyFlags(IntFlag):
    """What is known of the host's memory."""

    PAGEABLE = 1


class MemoryKind(_Told):
    """What memory is for."""

    DEVICE = 1, "the program's"
    PINNED_HOST = 2, "the program's, on the host"
    CONTEXT = 3, "of the CUDA context"
    NCCL = 4, "buffers of NCCL"
    LIBRARY = 5, "workspaces of other libraries"
    MANAGED = 6, "the program's managed memory, while it is on the device"


class NcclOpKind(_Told):
    """An operation of NCCL."""

    ALL_REDUCE = 1
    BROADCAST = 2
    REDUCE = 3
    ALL_GATHER = 4
    REDUCE_SCATTER = 5
    SEND = 6
    RECV = 7
    ALL_TO_ALL = 8
    GATHER = 9
    SCATTER = 10


class WaitFlags(IntFlag):
    """Who waits, and for how much.

    BACKGROUND: a helper thread, which holds its rank up by nothing. ANNOUNCES: the rank has come to
    a communicator and is told so at once; it waits for it later, by the same record without this.
    SUCCEEDS: another process of the rank begins, after one that has ended; what that waited for
    nobody waits for any more. POLLED: a question in the run that is simulated again, which was
    answered "done"; no rank sets it.
    """

    BACKGROUND = 1
    ANNOUNCES = 2
    SUCCEEDS = 4
    POLLED = 8


class WaitKind(_Told):
    """What a rank waits for.

    All but the two for communicators concern this rank alone; the payload of their answer is
    `EventNews`, that of ACTIVITIES `ActivityTimes` (csrc/protocol/records.h).
    """

    STREAM = 1, "all work of the stream so far is done"
    EVENT = 2, "the event is done"
    DEVICE = 3, "all work of all streams of the device is done"
    QUERY_STREAM = 4, "as STREAM, but answered at once: DONE or NOT_READY"
    QUERY_EVENT = 5, "as EVENT, but answered at once: DONE or NOT_READY"
    ELAPSED = 6, "nanoseconds from one event to another (int64), as `value`"
    COMM_INIT = 7, "the members of a new communicator have come; its number as `value`"
    COMM_SPLIT = 8, "the members of a communicator have split it; the part's number, or 0"
    RESUME = (
        9,
        "the simulation has reached the rank's clock: it was set aside while it waited outside, "
        "or its program sleeps",
    )
    OUTSIDE = (
        10,
        "as RESUME, before the rank does what others can notice by other means than the GPU: from "
        "then on those that were set aside count as running again",
    )
    ALARM = (
        11,
        "a thread waits until a deadline at most; always in the background. The slot is that of "
        "all alarms of the rank: whenever one has run out, it is answered with that time",
    )
    WITHDRAW = (
        12,
        "a helper thread waits no longer in this slot: unless it has been answered, it is now, "
        "with NOT_READY",
    )
    LAUNCH_QUEUE = 13, "as EVENT: until then the stream's queue of launches is full"
    ACTIVITIES = (
        14,
        "answered at once: when work with an `activity` began and ended that has ended since the "
        "last such question, as much as fits an answer; what is left as `value`",
    )


class ReplyStatus(_Told):
    """How a wait is answered."""

    DONE = 0
    NOT_READY = 1
    STOP = 2


class Arg(NamedTuple):
    """A word of `arg`, or the first of several."""

    position: int
    what: str


@dataclass(frozen=True)
class Layout:
    """What the fields of a record hold."""

    id: type[IntEnum] | str = ""
    flags: type[IntEnum] | type[IntFlag] | None = None
    on_stream: bool = False
    """It is work of the stream `stream`."""
    args: Mapping[str, Arg] = field(default_factory=dict)


_PAYLOAD = {"bytes": Arg(0, "of the payload that follows, in whole cells")}
_INSTANCE = {"instance": Arg(0, "of the event: 1, 2, 3 ... in each rank, never used again")}
_ACTIVITY = {"activity": Arg(4, "a number by which the rank asks when this ran; 0: it will not")}
_SCOPE = {
    "scope": Arg(
        3,
        "for which module and in which phase it is issued: the module's number, shifted by 3, and "
        "1 forward, 2 recomputation, 3 backward, 4 optimizer, 0 other",
    )
}
_WORK = _SCOPE | _ACTIVITY
_MEMORY = {
    "bytes": Arg(0, "of this allocation"),
    "pointer": Arg(1, "device pointer"),
    "used_bytes": Arg(2, "in use afterwards"),
}

LAYOUTS: Final[Mapping[RecordKind, Layout]] = {
    RecordKind.SIGNATURE: Layout("signature", args=_PAYLOAD),
    RecordKind.SITE: Layout("line", args=_PAYLOAD),
    RecordKind.MARKER: Layout(MarkerKind, args=_PAYLOAD),
    RecordKind.STATISTICS: Layout(args=_PAYLOAD),
    RecordKind.UNSUPPORTED: Layout(args=_PAYLOAD),
    RecordKind.STREAM_CREATE: Layout(
        flags=StreamFlags, on_stream=True, args={"priority": Arg(0, "as int64")}
    ),
    RecordKind.STREAM_DESTROY: Layout(on_stream=True),
    RecordKind.KERNEL: Layout("signature", on_stream=True, args=_WORK),
    RecordKind.COPY: Layout(
        CopyKind,
        CopyFlags,
        on_stream=True,
        args={"bytes": Arg(0, "copied")} | _WORK,
    ),
    RecordKind.FILL: Layout(on_stream=True, args={"bytes": Arg(0, "filled")} | _WORK),
    RecordKind.EVENT_RECORD: Layout(
        flags=EventFlags,
        on_stream=True,
        args=_INSTANCE
        | {"released": Arg(1, "up to four timed instances that nobody can ask about; 0: none")},
    ),
    RecordKind.STREAM_WAIT: Layout(on_stream=True, args=_INSTANCE),
    RecordKind.HOST_FUNCTION: Layout(on_stream=True),
    RecordKind.NCCL_LAUNCH: Layout(
        "communicator",
        flags=NcclLaunchFlags,
        on_stream=True,
        args={"operations": Arg(0, "how many records follow")} | _WORK,
    ),
    RecordKind.NCCL_OP: Layout(
        "communicator",
        NcclOpKind,
        args={
            "count": Arg(0, "of elements, as in NCCL's prototype"),
            "dtype": Arg(1, "ncclDataType_t"),
            "reduction": Arg(2, "ncclRedOp_t; PREMUL_SUM for the program's own"),
            "root": Arg(3, "or peer: a rank of the communicator"),
            "sequence": Arg(
                4,
                "of a collective: its position in the communicator; of SEND and RECV: the position "
                "among those to or from that peer",
            ),
        },
    ),
    RecordKind.WAIT: Layout(WaitKind, WaitFlags, args={"slot": Arg(4, "for the answer")}),
    RecordKind.COMM_DESTROY: Layout("communicator"),
    RecordKind.EXIT: Layout(args={"status": Arg(0, "as the program gave it")}),
    RecordKind.ALLOC: Layout(MemoryKind, args=_MEMORY),
    RecordKind.FREE: Layout(MemoryKind, args=_MEMORY),
    RecordKind.OUT_OF_MEMORY: Layout(
        args={
            "bytes": Arg(0, "asked for"),
            "free_bytes": Arg(1, "that were left"),
            "used_bytes": Arg(2, "in use"),
        }
    ),
    RecordKind.SYNTHETIC_READ: Layout(args={"bytes": Arg(0, "read")}),
}

WAIT_LAYOUTS: Final[Mapping[WaitKind, Layout]] = {
    WaitKind.STREAM: Layout(on_stream=True),
    WaitKind.EVENT: Layout(args=_INSTANCE),
    WaitKind.DEVICE: Layout(),
    WaitKind.QUERY_STREAM: Layout(on_stream=True),
    WaitKind.QUERY_EVENT: Layout(args=_INSTANCE),
    WaitKind.ELAPSED: Layout(args={"first": Arg(0, "event"), "second": Arg(1, "event")}),
    WaitKind.COMM_INIT: Layout(
        args={
            "unique_id": Arg(0, "hash of it"),
            "size": Arg(1, "members"),
            "position": Arg(2, "the rank in it"),
            "gpu": Arg(3, "which of its node it joins with, plus one; 0: the rank's own"),
        }
    ),
    WaitKind.COMM_SPLIT: Layout(
        args={
            "parent": Arg(0, "communicator"),
            "color": Arg(1, "as int64; -1: none"),
            "key": Arg(2, "as int64"),
            "index": Arg(3, "how often the parent was split before"),
        }
    ),
    WaitKind.RESUME: Layout(
        args={
            "values_ns": Arg(0, "when the values that it waited for were sent, if it was aside"),
            "lasts_ns": Arg(1, "how long it waits, where that is known: if it is simulated again"),
        }
    ),
    WaitKind.OUTSIDE: Layout(),
    WaitKind.ALARM: Layout(
        args={
            "deadline_ns": Arg(0, "in virtual time; this and `values_ns` are all absolute times"),
            "withdrawn": Arg(1, "1: the thread waits no longer"),
        }
    ),
    WaitKind.WITHDRAW: Layout(),
    WaitKind.LAUNCH_QUEUE: Layout(args=_INSTANCE),
    WaitKind.ACTIVITIES: Layout(),
}
"""What `arg` of a wait holds beside its slot."""
