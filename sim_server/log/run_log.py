"""What a run leaves behind: the server's share of the data file (docs/data-file.md).

What grows with the length of the run is handed on in pieces while it goes on; sums and peaks are
kept to the end.
"""

from __future__ import annotations

import functools
import heapq
import json
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sim_server._engine import Announcement, Ready
from sim_server.collectives import Way
from sim_server.log.caveats import CaveatLog
from sim_server.log.history import PIECE_ROWS, History, Piece, Rows
from sim_server.log.host_gaps import HostGapLog
from sim_server.log.host_tensors import HostTensorLog
from sim_server.log.routing import RoutingLog
from sim_server.log.scopes import BlockLog, ScopeLog
from sim_server.log.unsupported import UnsupportedLog
from sim_server.records import MemoryKind, RecordKind, named_args
from sim_server.records.announced import signed, text_of
from sim_server.records.operations import Operation
from sim_server.settings import Settings

# Of one rank's stream; whole cells and whole answers. Every rank may have as much pending
# (assumed to suit a thousand).
_PIECE_BYTES = 3 << 16

# An answer to a wait that held a rank up: WaitKind, ReplyStatus, reply slot, when the rank asked by
# its own clock, when it went on.
ANSWER = struct.Struct("<BBHxxxxqq")


# A site without one.
UNKNOWN_LINE = "an unknown line"

# What a look at PyTorch's memory tells.
_HELD = ("allocated", "parameters", "gradients", "optimizer")
# What a program reads at once to decide something, not to print it (assumed).
_LARGE_READ_BYTES = 1024


@dataclass
class DeviceMemory:
    """Peaks of one GPU's memory, as far as one rank takes it. Units: bytes."""

    allocated_peak_bytes: int = 0
    """Of PyTorch's caching allocator; 0 for a program without PyTorch."""
    reserved_peak_bytes: int = 0
    """Likewise."""
    device_peak_bytes: int = 0
    """Everything that took device memory, context and libraries included."""
    context_bytes: int = 0
    nccl_bytes: int = 0
    kinds: dict[str, Any] | None = None
    """What was allocated, with `--memory-kinds`."""

    def to_dict(self) -> dict[str, Any]:
        """For the data file."""
        told = asdict(self)
        return told if self.kinds else {key: told[key] for key in told if key != "kinds"}


@dataclass
class RankMemory:
    """What one rank takes of its GPUs, and what did not fit. Units: bytes."""

    capacity_bytes: int
    """Of each of its GPUs."""
    devices: defaultdict[int, DeviceMemory] = field(
        default_factory=functools.partial(defaultdict, DeviceMemory)
    )
    oom: list[dict[str, Any]] = field(default_factory=list)

    def note_retry(self, device: int, size_bytes: int, site: str) -> None:
        """The line that got this had been refused it: PyTorch has given back what it kept for
        reuse, and asked again.
        """
        asked = {"device": device, "asked_bytes": size_bytes, "site": site}
        for one in reversed(self.oom):
            if any(one[name] != value for name, value in asked.items()):
                break
            one["retried"] = True

    def to_dict(self) -> dict[str, Any]:
        """The GPU with the highest peak; all GPUs, if there are several."""
        peaks = self.devices.values()
        fullest = max(peaks, key=lambda one: one.device_peak_bytes, default=DeviceMemory())
        told = fullest.to_dict() | {"capacity_bytes": self.capacity_bytes, "oom": self.oom}
        if len(self.devices) > 1:
            told["devices"] = [
                {"device": device, **memory.to_dict()}
                for device, memory in sorted(self.devices.items())
            ]
        return told


@dataclass(frozen=True)
class Reply:
    """What a waiting rank is told. `time_ns`: its host clock becomes at least this."""

    rank: int
    slot: int
    status: int
    time_ns: int
    value: int
    payload: bytes = b""


class RunLog:
    """History, records, answers, markers, memory and call counts of one run."""

    def __init__(self, settings: Settings, is_held: bool = False) -> None:
        """`is_held`: what is told is kept once virtual time has passed it (`pass_time`), because
        the run may end before.
        """
        self._settings = settings
        self._held: list[tuple[int, int, int, Callable[[], None]]] | None = [] if is_held else None
        self._held_ever = 0
        self._is_over = False
        self._start_s = self._due_s = time.monotonic()
        self.history = History()
        self.scopes = ScopeLog()
        self._records = {rank: Cells(f"records/rank-{rank}") for rank in settings.live_ranks}
        self._answers = {rank: Cells(f"answers/rank-{rank}") for rank in settings.live_ranks}
        self._communicators: dict[int, list[int]] = {}
        self._sites: dict[tuple[int, int], str] = {}
        self._markers = Rows("markers")
        self._allocations = Rows("allocations")
        self._unknown_reads = Rows("unknown_reads")
        self._batches = Rows("batches")
        self._recomputations = Rows("recomputations")
        self._modules = Rows("modules")
        self._data_parallel: set[tuple[tuple[int, ...], int]] = set()
        self._memory = {
            rank: RankMemory(settings.gpu_of(rank).memory_bytes) for rank in settings.live_ranks
        }
        self._calls_of: set[int] = set()
        self._calls: dict[str, dict[str, Counter[str]]] = {}
        self._synthetic: dict[tuple[int, str], list[int]] = {}
        self._host_gaps = HostGapLog()
        self._host_tensors = HostTensorLog()
        self._routing = RoutingLog()
        self._caveats = CaveatLog()
        kinds = ("stand_ins", "partial_checkpoint")
        self._of_folds: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        self._peak_blocks = BlockLog()
        self._unsupported = UnsupportedLog()
        self._exits: dict[int, int] = {}

    # While the run goes on

    def pass_time(self, before_ns: int) -> None:
        """Virtual time has passed all before this: keep what was held until then, in order."""
        while self._held and self._held[0][0] < before_ns:
            heapq.heappop(self._held)[-1]()

    def end_at(self, time_ns: int) -> None:
        """The run ends then: what came later is not kept, nor is anything from now on."""
        self.pass_time(time_ns + 1)
        self.history.end_at(time_ns)
        self.scopes.end_at(time_ns)
        self._is_over = True

    def _hold(self, time_ns: int, rank: int, keep: Callable[[], None]) -> None:
        """Keep it at its time, or at once if nothing is held."""
        if self._is_over:
            return
        if self._held is None:
            keep()
        else:
            self._held_ever += 1
            heapq.heappush(self._held, (time_ns, rank, self._held_ever, keep))

    def add_records(self, rank: int, cells: bytes) -> None:
        """Keep a piece of a rank's record stream."""
        self._records[rank].add(cells)

    def add_answer(self, kind: int, asked_ns: int, reply: Reply) -> None:
        """Keep when a rank that waited went on, and how: what a simulation of its records needs."""
        self._answers[reply.rank].add(
            ANSWER.pack(kind, reply.status, reply.slot, asked_ns, reply.time_ns)
        )

    def add_exit(self, rank: int, status: int) -> None:
        """Keep how a rank's process ended."""
        self._exits[rank] = status

    @property
    def exits(self) -> Mapping[int, int]:
        """Status of the ranks that have ended."""
        return self._exits

    def troubles(self, rank: int, last_site: str = "") -> list[str]:
        """What may have made a rank fail, in sentences. `last_site`: of its last GPU call."""
        found = []
        refused = [one for one in self._memory[rank].oom if not one.get("retried")]
        for one in refused[-1:]:
            several = len(self._memory[rank].devices) > 1
            of_gpu = f"memory of GPU {one['device']}" if several else "device memory"
            found.append(
                f"It had asked for {one['asked_bytes'] / 2**30:.2f} GiB of {of_gpu} at "
                f"{one['site']}, where {one['free_bytes'] / 2**30:.2f} GiB were free."
            )
        # Losses are read by every program, a few bytes at a time. What it read last may count.
        reads = [
            (size_bytes, site)
            for (of, site), (size_bytes, count) in self._synthetic.items()
            if of == rank and (size_bytes >= _LARGE_READ_BYTES * count or site == last_site)
        ]
        if reads:
            size_bytes, site = max(reads)
            found.append(
                f"It had read {size_bytes:,} bytes back at {site} that nothing had computed; "
                "copies and collectives up to --values-threshold carry real data."
            )
        return found + self._host_tensors.troubles(rank) + self._unsupported.troubles(rank)

    def failed_ranks(self) -> list[tuple[int, int]]:
        """Ranks that ended with a failure, and their status, in the order in which they did."""
        return [(rank, status) for rank, status in self._exits.items() if status != 0]

    def add_communicator(self, identifier: int, members: list[int]) -> None:
        """Keep the members of a communicator, in its order."""
        self._communicators[identifier] = members

    def add_operation(
        self,
        now_ns: int,
        ready: Ready,
        operation: Operation,
        way: Way | None,
        ends_ns: list[int],
        *,
        owners: list[tuple[int, int]] | None,
        arrivals_ns: list[int],
    ) -> None:
        """Keep an operation that has finished now. `owners`: see `Communicators.owners`."""
        row = {
            "kind": operation.kind.name.lower(),
            "comm": ready.comm,
            "bytes": operation.buffer_bytes,
            "count": operation.count,
            "dtype": operation.dtype,
            "members": list(operation.participants),
            "arrivals_ns": arrivals_ns,
            "moves_ns": ready.time_ns,
            "ends_ns": ends_ns,
            "site": self.site(ready.rank, ready.site),
        }
        derived = {} if way is None else way._asdict()
        # What else its flows depend on, if it has not the usual value.
        derived |= {
            name: value
            for name, value in (
                ("root", operation.root),
                ("reduction", operation.reduction),
                ("owners", owners),
            )
            if value
        }
        self._hold(now_ns, -1, functools.partial(self.history.add_operation, row, derived))

    def add_announcement(self, announcement: Announcement) -> None:
        """Keep what a rank said about itself."""
        rank = announcement.rank
        kind = RecordKind(announcement.kind)
        if kind is RecordKind.SITE:
            self._sites[rank, announcement.id] = text_of(announcement)
        elif kind is RecordKind.EXIT:
            self.add_exit(rank, signed(named_args(kind, announcement.args)["status"]))
        else:
            keep = functools.partial(self._keep, kind, rank, announcement)
            self._hold(announcement.host_time_ns, rank, keep)

    def _keep(self, kind: RecordKind, rank: int, announcement: Announcement) -> None:
        if kind is RecordKind.MARKER:
            name = self.marker_name(announcement)
            self._markers.add([rank, announcement.host_time_ns, announcement.id, name])
        elif kind is RecordKind.STATISTICS:
            statistics = json.loads(announcement.payload)
            if statistics["kind"] in ("modules", "peak_blocks"):
                self._add_modules(rank, statistics)
            else:
                self._add_statistics(rank, announcement.host_time_ns, statistics)
        elif kind is RecordKind.OUT_OF_MEMORY:
            args = named_args(kind, announcement.args)
            self._memory[rank].oom.append(
                {
                    "device": announcement.device,
                    "asked_bytes": args["bytes"],
                    "free_bytes": args["free_bytes"],
                    "site": self.site(rank, announcement.site),
                }
            )
        elif kind in (RecordKind.ALLOC, RecordKind.FREE):
            self._add_allocation(kind, rank, announcement)
        elif kind is RecordKind.UNSUPPORTED:
            call = json.loads(announcement.payload)
            self._unsupported.add_first(rank, call, self.site(rank, announcement.site))
        elif kind is RecordKind.SYNTHETIC_READ:
            site = self.site(rank, announcement.site)
            self._unknown_reads.add([rank, announcement.host_time_ns, site])
            totals = self._synthetic.setdefault((rank, site), [0, 0])
            totals[0] += named_args(kind, announcement.args)["bytes"]
            totals[1] += 1

    def _add_allocation(self, kind: RecordKind, rank: int, announcement: Announcement) -> None:
        """Device memory that is taken or given back."""
        if announcement.id == MemoryKind.PINNED_HOST:
            return
        args = named_args(kind, announcement.args)
        size_bytes, in_use_bytes = args["bytes"], args["used_bytes"]
        is_taken = kind is RecordKind.ALLOC
        self._allocations.add(
            [
                *(rank, announcement.host_time_ns, announcement.device, announcement.id),
                *(size_bytes if is_taken else -size_bytes, in_use_bytes, args["pointer"]),
                self.site(rank, announcement.site) if is_taken else "",
            ]
        )
        if not is_taken:
            return
        self._memory[rank].note_retry(
            announcement.device, size_bytes, self.site(rank, announcement.site)
        )
        memory = self._memory[rank].devices[announcement.device]
        memory.device_peak_bytes = max(memory.device_peak_bytes, in_use_bytes)
        if announcement.id == MemoryKind.CONTEXT:
            memory.context_bytes += size_bytes
        elif announcement.id == MemoryKind.NCCL:
            memory.nccl_bytes += size_bytes

    def _add_modules(self, rank: int, statistics: dict[str, Any]) -> None:
        if statistics["kind"] == "peak_blocks":
            self._peak_blocks.add(rank, statistics)
            return
        for number, path in statistics["paths"]:
            self._modules.add([rank, number, path])

    def _add_statistics(self, rank: int, time_ns: int, statistics: dict[str, Any]) -> None:
        if statistics["kind"] in ("memory", "memory_kinds"):
            self._add_memory(rank, statistics)
        elif statistics["kind"] == "calls":
            self._calls_of.add(rank)
            library = self._calls.setdefault(
                statistics["library"],
                {"modelled": Counter(), "ignored": Counter(), "passthrough": Counter()},
            )
            for support, total in library.items():
                total.update(statistics[support])
        elif statistics["kind"] in HostGapLog.KINDS:
            self._host_gaps.add(rank, statistics)
        elif statistics["kind"] == "routing":
            self._routing.add(statistics)
        elif statistics["kind"] == "caveat":
            self._caveats.add(rank, statistics)
        elif statistics["kind"] in self._of_folds:
            self._of_folds[statistics["kind"]][self.site(rank, statistics["site"])] += 1
        elif statistics["kind"] == "batch":
            names = ("source", "key", "samples", "tokens")
            self._batches.add([rank, time_ns, *(statistics[name] for name in names)])
        elif statistics["kind"] == "data_parallel":
            group = tuple(statistics["ranks"]), statistics["parts"]
            self._data_parallel.add(group)
        elif statistics["kind"] == "recomputation":
            self._recomputations.add([rank, time_ns, statistics["event"]])
        elif statistics["kind"] == "unsupported":
            self._unsupported.add_counts(rank, statistics, functools.partial(self.site, rank))
        elif statistics["kind"] == "host_tensors":
            self._host_tensors.add(rank, statistics, functools.partial(self.site, rank))

    def _add_memory(self, rank: int, statistics: dict[str, Any]) -> None:
        memory = self._memory[rank].devices[statistics["device"]]
        if statistics["kind"] == "memory_kinds":
            sizes = statistics["sizes_bytes"]
            memory.kinds = {
                "when": statistics["when"],
                **{f"{name}_bytes": sizes.get(name, 0) for name in _HELD},
            }
            return
        memory.allocated_peak_bytes = max(
            memory.allocated_peak_bytes, statistics["allocated_peak_bytes"]
        )
        memory.reserved_peak_bytes = max(
            memory.reserved_peak_bytes, statistics["reserved_peak_bytes"]
        )

    def site(self, rank: int, identifier: int) -> str:
        """The Python line behind a call site of a rank."""
        return self._sites.get((rank, identifier), UNKNOWN_LINE)

    def marker_name(self, announcement: Announcement) -> str:
        """What it says, or the Python line that left it."""
        if announcement.site:
            return self.site(announcement.rank, announcement.site)
        return text_of(announcement)

    # What has gathered

    def due(self) -> bool:
        """Whether it is time to hand on what there is, though it be little.

        Not more than a twentieth of a run is lost if it breaks off, and pieces are not many.
        """
        return time.monotonic() >= self._due_s

    def pieces(self, everything: bool) -> Iterator[Piece]:
        """Members of the data file that are complete, or `everything` as far as it has settled."""
        rows: tuple[Rows | ScopeLog, ...] = (
            *(self._markers, self._allocations, self._unknown_reads),
            *(self._batches, self._recomputations, self._modules, self.scopes),
        )
        if everything or self.history.is_full() or max(map(len, rows)) >= PIECE_ROWS:
            yield from self.history.take()
            for one in rows:
                yield from one.take()
        for stream in (*self._records.values(), *self._answers.values()):
            yield from stream.take(everything)
        if everything:
            now_s = time.monotonic()
            self._due_s = now_s + max(1.0, (now_s - self._start_s) / 20)

    def folded(self) -> dict[str, Any]:
        """For fold.json: what gloo's collectives took, and checkpoints that lack shards."""
        names = {"stand_ins": "gloo", "partial_checkpoint": "partial_checkpoints"}
        return {
            names[kind]: [{"site": site, "count": count} for site, count in sorted(uses.items())]
            for kind, uses in self._of_folds.items()
        }

    def last_files(self) -> Iterator[Piece]:
        """What is known only at the end, the digest last."""
        yield "communicators.json", _json_bytes(self._communicators)
        memory = {
            "capacity_bytes": self._settings.gpu.memory_bytes,
            "per_rank": [memory.to_dict() for memory in self._memory.values()],
        }
        yield "memory.json", _json_bytes(memory)
        yield "calls.json", _json_bytes(self._calls)
        yield "calls_of.json", _json_bytes(sorted(self._calls_of))
        yield "synthetic.json", _json_bytes(self._synthetic_reads())
        yield "host_gaps.json", _json_bytes(self._host_gaps.to_dict())
        yield "host_tensors.json", _json_bytes(self._host_tensors.to_dict())
        yield "routing.json", _json_bytes(self._routing.to_list())
        yield "caveats.json", _json_bytes(self._caveats.to_list())
        groups = [{"ranks": ranks, "parts": parts} for ranks, parts in sorted(self._data_parallel)]
        yield "data_parallel.json", _json_bytes(groups)
        yield "unsupported.json", _json_bytes(self._unsupported.to_list())
        yield from self._peak_blocks.take()
        yield "exits.json", _json_bytes(self._exits)
        yield "digest", self.history.digest().encode()

    def _synthetic_reads(self) -> list[dict[str, Any]]:
        return [
            {"rank": rank, "site": site, "bytes": totals[0], "count": totals[1]}
            for (rank, site), totals in sorted(self._synthetic.items())
        ]


class Cells:
    """A stream of bytes that leaves in numbered pieces: `name/000000.bin`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._content = bytearray()
        self._pieces = 0

    def add(self, content: bytes) -> None:
        """Append."""
        self._content += content

    def take(self, everything: bool) -> Iterator[Piece]:
        """Full pieces; with `everything` also the rest."""
        while len(self._content) >= (1 if everything else _PIECE_BYTES):
            yield f"{self._name}/{self._pieces:06}.bin", bytes(self._content[:_PIECE_BYTES])
            self._pieces += 1
            del self._content[:_PIECE_BYTES]


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
