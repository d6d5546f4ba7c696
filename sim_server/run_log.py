"""What a run leaves behind: the server's share of the data file.

Collects while the simulation runs and writes once at the end; every file is described in
docs/data-file.md. Identifiers that depend on the order in which the operating system delivered
records are replaced by ones that do not, so that equal runs give equal files and one digest.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sim_server._engine import Announcement, Ready
from sim_server.host_gaps import HostGapLog
from sim_server.kernels import Timing
from sim_server.operations import Operation
from sim_server.records import MarkerKind, MemoryKind, RecordKind
from sim_server.settings import Settings

# The data of a run is complete when this file is.
LAST_FILE = "digest"

KERNEL_SPAN = 1
COMMUNICATION_SPAN = 4
HOST_WAIT_SPAN = 5


@dataclass
class RankMemory:
    """Peaks of one rank's device memory and what did not fit. Units: bytes."""

    allocated_peak_bytes: int = 0
    """Of PyTorch's caching allocator; 0 for a program without PyTorch."""
    reserved_peak_bytes: int = 0
    """Likewise."""
    device_peak_bytes: int = 0
    """Everything that took device memory, context and libraries included."""
    context_bytes: int = 0
    nccl_bytes: int = 0
    oom: list[dict[str, Any]] = field(default_factory=list)


class RunLog:
    """Timings, spans, operations, markers, memory and call counts of one run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timings: dict[bytes, Timing] = {}
        self._timing_indexes: dict[bytes, int] = {}
        self._spans: list[np.ndarray] = []
        self._records: dict[int, list[bytes]] = defaultdict(list)
        self._operations: dict[int, dict[str, Any]] = {}
        self._communicators: dict[int, list[int]] = {}
        self._sites: dict[tuple[int, int], str] = {}
        self._markers: list[list[Any]] = []
        self._iterations: Counter[str] = Counter()
        self._memory = [RankMemory() for _ in range(settings.ranks)]
        self._calls: dict[str, dict[str, Counter[str]]] = {}
        self._synthetic: dict[tuple[int, str], list[int]] = {}
        self._host_gaps = HostGapLog()
        self._exits: dict[int, int] = {}

    # While the run goes on

    def add_records(self, rank: int, cells: bytes) -> None:
        """Keep a piece of a rank's record stream."""
        self._records[rank].append(cells)

    def add_exit(self, rank: int, status: int) -> None:
        """Keep how a rank's process ended."""
        self._exits[rank] = status

    def failed_ranks(self) -> list[tuple[int, int]]:
        """Ranks that ended with a failure, and their status, in the order in which they did."""
        return [(rank, status) for rank, status in self._exits.items() if status != 0]

    def timing(self, signature: bytes) -> Timing | None:
        """The timing of a signature that was seen before, of whatever rank."""
        return self._timings.get(signature)

    def add_timing(self, signature: bytes, timing: Timing) -> Timing:
        """Keep the timing of a new signature."""
        self._timing_indexes[signature] = len(self._timings)
        self._timings[signature] = timing
        return timing

    def timing_index(self, signature: bytes) -> int:
        """The number that spans carry for a signature until the end of the run."""
        return self._timing_indexes[signature]

    def add_communicator(self, identifier: int, members: list[int]) -> None:
        """Keep the members of a communicator, in its order."""
        self._communicators[identifier] = members

    def add_operation(self, ready: Ready, operation: Operation, ends_ns: list[int]) -> None:
        """Keep a finished operation."""
        self._operations[ready.operation] = {
            "kind": operation.kind.name.lower(),
            "comm": ready.comm,
            "bytes": operation.buffer_bytes,
            "count": operation.count,
            "dtype": operation.dtype,
            "members": list(operation.participants),
            "arrivals_ns": list(ready.arrivals_ns),
            "moves_ns": ready.time_ns,
            "ends_ns": ends_ns,
            "site": self.site(operation.participants[0], ready.site),
        }

    def add_spans(self, spans: np.ndarray) -> None:
        """Keep finished work; rows as in docs/data-file.md."""
        if len(spans):
            self._spans.append(spans)

    def add_announcement(self, announcement: Announcement) -> None:
        """Keep what a rank said about itself."""
        rank = announcement.rank
        kind = RecordKind(announcement.kind)
        if kind is RecordKind.SITE:
            self._sites[rank, announcement.id] = announcement.payload.decode()
        elif kind is RecordKind.MARKER:
            self._add_marker(
                rank, announcement.host_time_ns, announcement.id, announcement.payload.decode()
            )
        elif kind is RecordKind.STATISTICS:
            self._add_statistics(rank, json.loads(announcement.payload))
        elif kind is RecordKind.OUT_OF_MEMORY:
            asked_bytes, free_bytes = announcement.args[:2]
            self._memory[rank].oom.append(
                {
                    "asked_bytes": asked_bytes,
                    "free_bytes": free_bytes,
                    "site": self.site(rank, announcement.site),
                }
            )
        elif kind is RecordKind.ALLOC:
            self._add_allocation(rank, announcement)
        elif kind is RecordKind.EXIT:
            self.add_exit(rank, announcement.args[0])
        elif kind is RecordKind.SYNTHETIC_READ:
            totals = self._synthetic.setdefault((rank, self.site(rank, announcement.site)), [0, 0])
            totals[0] += announcement.args[0]
            totals[1] += 1

    def _add_marker(self, rank: int, time_ns: int, kind: int, name: str) -> None:
        self._markers.append([rank, time_ns, kind, name])
        if rank == 0 and kind in (MarkerKind.OPTIMIZER_STEP, MarkerKind.ITERATION):
            self._iterations[name] += 1

    def _add_allocation(self, rank: int, announcement: Announcement) -> None:
        if announcement.id == MemoryKind.PINNED_HOST:
            return
        size_bytes, _, in_use_bytes = announcement.args[:3]
        memory = self._memory[rank]
        memory.device_peak_bytes = max(memory.device_peak_bytes, in_use_bytes)
        if announcement.id == MemoryKind.CONTEXT:
            memory.context_bytes += size_bytes
        elif announcement.id == MemoryKind.NCCL:
            memory.nccl_bytes += size_bytes

    def _add_statistics(self, rank: int, statistics: dict[str, Any]) -> None:
        if statistics["kind"] == "memory":
            memory = self._memory[rank]
            memory.allocated_peak_bytes = max(
                memory.allocated_peak_bytes, statistics["allocated_peak_bytes"]
            )
            memory.reserved_peak_bytes = max(
                memory.reserved_peak_bytes, statistics["reserved_peak_bytes"]
            )
        elif statistics["kind"] == "calls":
            library = self._calls.setdefault(
                statistics["library"],
                {"modelled": Counter(), "ignored": Counter(), "passthrough": Counter()},
            )
            for support, total in library.items():
                total.update(statistics[support])
        elif statistics["kind"] == "host_gaps":
            self._host_gaps.add_measured(statistics["gaps"])
        elif statistics["kind"] == "replayed_gaps":
            self._host_gaps.add_replayed(statistics)

    def site(self, rank: int, identifier: int) -> str:
        """The Python line behind a call site of a rank."""
        return self._sites.get((rank, identifier), "an unknown line")

    def iterations(self) -> int:
        """How often rank 0 has passed its most frequent marker, for the progress line."""
        return max(self._iterations.values(), default=0)

    # At the end

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The server's files of the data file, as name and content."""
        spans, timings = self._settled()
        yield "spans.npy", _npy_bytes(spans)
        yield "timings.json", _json_bytes(timings)
        operations = [self._operations[key] for key in sorted(self._operations)]
        yield "operations.json", _json_bytes(operations)
        yield "communicators.json", _json_bytes(self._communicators)
        yield "markers.json", _json_bytes(sorted(self._markers, key=lambda marker: marker[:2]))
        yield (
            "memory.json",
            _json_bytes(
                {
                    "capacity_bytes": self._settings.gpu.memory_bytes,
                    "per_rank": [asdict(memory) for memory in self._memory],
                }
            ),
        )
        yield "calls.json", _json_bytes(self._calls)
        yield "synthetic.json", _json_bytes(self._synthetic_reads())
        yield "host_gaps.json", _json_bytes(self._host_gaps.to_dict())
        yield "exits.json", _json_bytes(self._exits)
        yield "settings.json", self._settings.to_json().encode()
        for rank in sorted(self._records):
            yield f"records/rank-{rank}.bin", b"".join(self._records[rank])
        yield LAST_FILE, _digest(spans, timings, operations).encode()

    def _synthetic_reads(self) -> list[dict[str, Any]]:
        return [
            {"rank": rank, "site": site, "bytes": totals[0], "count": totals[1]}
            for (rank, site), totals in sorted(self._synthetic.items())
        ]

    def _settled(self) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Spans in a fixed order; timings are numbered by signature, operations by their start."""
        # The packed type: padding of the engine's structure would reach the digest.
        spans = np.concatenate(
            [np.empty(0, SPAN_TYPE), *(rows.astype(SPAN_TYPE) for rows in self._spans)]
        )
        ordered = sorted(self._timings)
        settled_index = np.zeros(max(len(ordered), 1), dtype=np.uint32)
        for index, signature in enumerate(ordered):
            settled_index[self._timing_indexes[signature]] = index
        kernels = spans["kind"] == KERNEL_SPAN
        spans["id"][kernels] = settled_index[spans["id"][kernels]]
        handles = {handle: index for index, handle in enumerate(sorted(self._operations))}
        collectives = spans["kind"] == COMMUNICATION_SPAN
        spans["id"][collectives] = [
            handles.get(int(handle), 0) for handle in spans["id"][collectives]
        ]
        # The last key is the first to sort by. np.sort with an order is many times slower.
        fields = ("device", "id", "stream", "kind", "end_ns", "start_ns", "issue_ns", "rank")
        spans = spans[np.lexsort([spans[field] for field in fields])]
        counts = np.bincount(spans["id"][spans["kind"] == KERNEL_SPAN], minlength=len(ordered))
        timings = [
            {
                "name": timing.name,
                "class": timing.kernel_class,
                "tier": timing.tier.value,
                "duration_ns": timing.duration_ns,
                "count": int(count),
            }
            for timing, count in zip((self._timings[key] for key in ordered), counts, strict=True)
        ]
        return spans, timings


SPAN_TYPE = np.dtype(
    [
        ("rank", "<u4"),
        ("kind", "u1"),
        ("device", "<u2"),
        ("stream", "<u4"),
        ("id", "<u4"),
        ("issue_ns", "<i8"),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
    ]
)


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _digest(
    spans: np.ndarray, timings: list[dict[str, Any]], operations: list[dict[str, Any]]
) -> str:
    """One number for the whole history: equal runs have equal digests."""
    digest = hashlib.sha256()
    digest.update(spans.tobytes())
    digest.update(_json_bytes(timings))
    digest.update(_json_bytes(operations))
    return digest.hexdigest()
