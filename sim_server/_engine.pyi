"""The device engine: replays the records of all ranks on their devices, in one order.

It owns virtual time of hosts and devices. It is told how long kernels and communication take.

Units: every time and duration is an int in virtual nanoseconds. `rank`: global rank.
Raises: ValueError for arguments and records that say what they may not say, naming rank and record;
RuntimeError with the rank's last records when the engine finds itself wrong (exit code 70).
"""

from collections.abc import Mapping, Sequence

import numpy as np

def operation_name(kind: int) -> str:
    """An NcclOpKind in NCCL's words: AllReduce."""

def data_type_name(dtype: int) -> str:
    """An ncclDataType_t in PyTorch's words: float32."""

def liveness_table() -> dict[str, dict[str, str]]:
    """By cause and state: the state after it (docs/liveness.md)."""

class MalformedInput(ValueError):  # noqa: N818 - as the engine has it
    """Records that say what they may not say. The message names rank and record."""

class Announcement:
    """A record that is the server's business and not the engine's."""

    @property
    def kind(self) -> int:
        """RecordKind."""
    @property
    def rank(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def marker(self) -> int:
        """MarkerKind, of a marker: its id."""
    @property
    def flags(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def site(self) -> int:
        """Call site as this rank numbers it; 0: unknown."""
    @property
    def args(self) -> tuple[int, int, int, int, int]: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def host_time_ns(self) -> int:
        """When the rank issued it."""

class Ready:
    """An operation all of whose participants have arrived. Send and Recv meet as one Send."""

    @property
    def operation(self) -> int:
        """Its handle: 0, 1, 2 ... in the order of getting ready."""
    @property
    def time_ns(self) -> int: ...
    @property
    def kind(self) -> int:
        """NcclOpKind."""
    @property
    def comm(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def dtype(self) -> int: ...
    @property
    def reduction(self) -> int: ...
    @property
    def root(self) -> int:
        """A rank of the communicator."""
    @property
    def source(self) -> int:
        """The member that sends, of a Send; -1 for collectives."""
    @property
    def destination(self) -> int: ...
    @property
    def launch(self) -> int:
        """Shared by the operations that one launch made ready together."""
    @property
    def rank(self) -> int:
        """Of the first participant in member order."""
    @property
    def site(self) -> int:
        """Call site of the first participant."""
    @property
    def arrivals_ns(self) -> list[int]:
        """In member order; source, destination for a Send."""

class Request:
    """A wait that the server answers: CommInit or CommSplit."""

    @property
    def rank(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def kind(self) -> int:
        """WaitKind."""
    @property
    def announces(self) -> bool:
        """The rank wants to know at once that it has come; it asks again later."""
    @property
    def args(self) -> tuple[int, int, int, int, int]: ...
    @property
    def site(self) -> int: ...
    @property
    def time_ns(self) -> int: ...

class Answer:
    """What a rank that waited is to be told."""

    @property
    def rank(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def kind(self) -> int:
        """WaitKind."""
    @property
    def background(self) -> bool:
        """Whether a helper thread asked: the rank itself was not held up."""
    @property
    def asked_ns(self) -> int:
        """The time of the record; a rank that was set aside may have asked later."""
    @property
    def status(self) -> int:
        """ReplyStatus."""
    @property
    def time_ns(self) -> int: ...
    @property
    def value(self) -> int:
        """64 bits; a negative elapsed time as two's complement."""
    @property
    def payload(self) -> bytes: ...

class Stop:
    """Why and where `advance` returned."""

    @property
    def time_ns(self) -> int: ...
    @property
    def ready(self) -> list[Ready]: ...
    @property
    def requests(self) -> list[Request]: ...
    @property
    def answers(self) -> list[Answer]: ...
    @property
    def mismatch(self) -> str | None:
        """How two ranks disagree about an operation. The run cannot go on."""

class Pending:
    """An operation that some participants have reached and others have not."""

    @property
    def comm(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def dtype(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def arrived(self) -> list[tuple[int, int, int, int]]:
        """Rank, member, call site, and since when."""
    @property
    def missing(self) -> list[tuple[int, int]]:
        """Rank and member."""
    @property
    def source(self) -> int:
        """The member that sends, of a Send or Recv; -1 for collectives."""
    @property
    def destination(self) -> int: ...

class HostWait:
    """What the host of a rank waits for."""

    @property
    def rank(self) -> int: ...
    @property
    def kind(self) -> int:
        """WaitKind."""
    @property
    def site(self) -> int: ...
    @property
    def since_ns(self) -> int: ...
    @property
    def held_up_by(self) -> list[str]:
        """Running work of the rank that it waits for, in words."""

class Engine:
    @property
    def time_ns(self) -> int:
        """The engine's time: everything before it has happened."""
    def __init__(
        self,
        ranks: int,
        sm_count: int,
        comm_sm: int,
        copy_rates: Mapping[tuple[int, bool], tuple[int, float]],
        fill_rate: tuple[int, float],
        live: Sequence[int] | None = None,
    ) -> None:
        """An engine at time 0, all of whose ranks run.

        `live`: the ranks that are fed, in order; None: all. The others are members of
        communicators that nobody waits for.

        `sm_count`: multiprocessors of a device; `comm_sm`: those that an NCCL launch occupies.
        `copy_rates`: (CopyKind, pageable) -> (latency in ns, bytes per second).
        """
    def set_gpu(
        self,
        rank: int,
        sm_count: int,
        comm_sm: int,
        copy_rates: Mapping[tuple[int, bool], tuple[int, float]],
        fill_rate: tuple[int, float],
    ) -> None:
        """The devices of this rank are of another model; before anything is fed."""
    def feed(self, rank: int, cells: bytes, host_clock_ns: int) -> list[Announcement]:
        """Take what a rank wrote, in whole cells; a cut may fall between any two.

        `host_clock_ns`: read before the ring was drained; no later record is issued before it.
        """
    def check_whole(self, rank: int) -> None:
        """A rank writes at once what belongs together. Raises: MalformedInput if what it was fed
        last ends in the middle of that.
        """
    def set_duration(
        self, rank: int, signature: int, duration_ns: int, sm_demand: float, timing_index: int
    ) -> None:
        """Time of an announced signature, before the next `advance`. `sm_demand`: in (0, 1]."""
    def bound(self) -> int | None:
        """The least time at which a running rank may still issue something; None: no rank runs."""
    def next_time(self) -> int | None:
        """When the next event happens that is known, whether or not the bound allows it yet."""
    def advance(self, limit_ns: int | None, inclusive: bool) -> Stop:
        """Carry out events before `bound()` and up to `limit_ns` (None: no limit).

        Returns right after an event at which operations get ready, a rank makes a request, or
        operations do not match; call again then. Otherwise everything before the bound and the
        limit has happened, and at the bound what docs/decisions/inbox-phases.md allows.
        """
    def define_communicator(
        self, comm: int, members: Sequence[int], owners: Sequence[tuple[int, int]] | None = None
    ) -> None:
        """GPUs in communicator order, before its creation is answered.

        `owners`: of each its rank and the device that it is there; None: each GPU is of the rank of
        its number. A rank that has one member is that, whatever device its operations name.
        """
    def answer(self, rank: int, slot: int, status: int, time_ns: int, value: int) -> None:
        """The server answers a rank itself; it runs from `time_ns` on."""
    def finish(self, operation: int, ends_ns: Sequence[int]) -> None:
        """When a ready operation ends for each participant, in member order; now or later.

        The first operation to be finished has spans with id 0, the next 1, and so on.
        Limits: an end before the engine's time counts as now: ranks may have been told otherwise.
        """
    def set_aside(self, rank: int, proven: bool = False, awaits_values: bool = False) -> None:
        """The rank constrains nobody until its Resume wait is answered.

        `proven`: none of its threads will go on by itself, so that its alarms may ring.
        `awaits_values`: it counts as running again when ranks send each other values, too.
        """
    def exited(self, rank: int) -> None:
        """The rank's process has ended. What it issued goes on."""
    def wakeups(self) -> int:
        """How often something happened that may set a rank going."""

    def helper_waits(self) -> int:
        """How many helper threads wait: for work, or for their time to act outside."""

    def is_running(self, rank: int) -> bool: ...
    def liveness(self, rank: int) -> str:
        """The rank's state (docs/liveness.md)."""
    def alarmed_ranks(self) -> list[int]:
        """Those with threads that wait until a deadline, or that have come to it."""
    def helpers_run_ranks(self) -> list[int]:
        """Ranks that wait, while an alarm has set some of their threads going."""
    def unproven_ranks(self) -> list[int]:
        """Those that were set aside without proof and have alarms, which therefore do not ring."""
    def waiting_ranks(self) -> list[int]: ...
    def running_ranks(self) -> list[int]: ...
    def outside_ranks(self) -> list[int]: ...
    def pending_operations(self) -> list[Pending]: ...
    def host_waits(self) -> list[HostWait]:
        """For the deadlock report: what each waiting rank waits for."""
    def oldest_issue_ns(self, rank: int) -> int:
        """When the oldest work of the rank's devices that is not done was issued.

        Later than anything if all is done. Slow: looks at all work there is.
        """
    def last_site(self, rank: int) -> int:
        """Call site of the rank's last call whose Python line is known; 0: none is."""
    def take_spans(self) -> np.ndarray:
        """Work and host waits that have ended since the last call, as rows of spans/N.npy.

        Communication is listed once its end is known. Queries are not listed. Rows of later calls
        end at `time_ns` or later; the order of those that end at one time depends on delivery only
        between ranks.
        """
    def take_scopes(self) -> np.ndarray:
        """Since the last call, where ranks began to issue work for another module or in another
        phase: rows of scopes/N.npy, those of a rank in the order of their issue.
        """
    @property
    def span_count(self) -> int:
        """How many rows `take_spans` would return."""
