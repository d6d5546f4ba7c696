"""Device memory over time, and what was allocated at the peak of a rank's device.

It knows the driver's allocations only: PyTorch's caching allocator takes segments from the driver
and hands out parts of them, which are not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phantora_py.data import RunData
from phantora_py.data.rows import Allocation
from phantora_py.report.iterations import Nanoseconds
from sim_server.errors import UsageError
from sim_server.records import MemoryKind


@dataclass(frozen=True)
class MemorySeries:
    """Bytes in use on one device of a rank. Shapes: [n], [n]."""

    ranks: list[int]
    """Those that went through the same sizes. The times are those of the first."""
    device: int
    """Of the first."""
    times_ns: Nanoseconds
    in_use_bytes: Nanoseconds

    @property
    def peak_bytes(self) -> int:
        """The most at any time."""
        return int(self.in_use_bytes.max())


@dataclass(frozen=True)
class LiveRow:
    """What one Python line had taken, of one kind."""

    kind: str
    site: str
    allocations: int
    size_bytes: int
    largest_bytes: int


@dataclass(frozen=True)
class Peak:
    """The peak of a rank's device: how much, when first, and what was allocated, largest first."""

    rank: int
    time_ns: int
    in_use_bytes: int
    rows: list[LiveRow]


def memory_series(data: RunData) -> list[MemorySeries]:
    """Highest peak first; empty if the data file does not have allocations."""
    alike: dict[bytes, MemorySeries] = {}
    for (rank, device), events in _by_device(data).items():
        in_use_bytes = np.array([event.in_use_bytes for event in events], np.int64)
        times_ns = np.array([event.time_ns for event in events], np.int64)
        key = in_use_bytes.tobytes()
        alike.setdefault(key, MemorySeries([], device, times_ns, in_use_bytes)).ranks.append(rank)
    return sorted(alike.values(), key=lambda one: (-one.peak_bytes, one.ranks[0], one.device))


def memory_peak(data: RunData, series: MemorySeries) -> Peak:
    """Of the first rank of a series."""
    events = _by_device(data)[series.ranks[0], series.device]
    fullest = int(np.argmax(series.in_use_bytes))
    live = _live(data, events[: fullest + 1])
    if live and not events[fullest].in_use_bytes:
        raise UsageError(
            f"{data.path} is damaged: allocations: rank {series.ranks[0]} has taken memory, and "
            "none is in use"
        )
    groups: dict[tuple[str, str], list[int]] = {}
    for event in live:
        kind = MemoryKind(event.kind).name.lower().replace("_", " ")
        groups.setdefault((kind, event.site), []).append(event.size_bytes)
    rows = [LiveRow(*key, len(sizes), sum(sizes), max(sizes)) for key, sizes in groups.items()]
    return Peak(
        series.ranks[0],
        events[fullest].time_ns,
        events[fullest].in_use_bytes,
        sorted(rows, key=lambda row: (-row.size_bytes, row.kind, row.site)),
    )


def live_at(data: RunData, rank: int, device: int, time_ns: int) -> list[Allocation]:
    """What a rank had taken of a device at a time of its host."""
    events = _by_device(data).get((rank, device), [])
    return _live(data, [event for event in events if event.time_ns <= time_ns])


def _by_device(data: RunData) -> dict[tuple[int, int], list[Allocation]]:
    found: dict[tuple[int, int], list[Allocation]] = {}
    for event in data.allocations:
        found.setdefault((event.rank, event.device), []).append(event)
    return found


def _live(data: RunData, events: Sequence[Allocation]) -> list[Allocation]:
    """What has been taken and not given back. Without an address, the last of that kind and size
    is what was given back. Raises: UsageError if that was never taken.
    """
    live: dict[tuple[int, int, int], list[Allocation]] = {}
    for event in events:
        size_bytes = abs(event.size_bytes)
        held = live.setdefault((event.kind, event.pointer, size_bytes), [])
        if event.size_bytes >= 0:
            held.append(event)
        elif held:
            held.pop()
        else:
            raise UsageError(
                f"{data.path} is damaged: allocations: rank {event.rank} gives {size_bytes} bytes "
                "back that it has not"
            )
    return [event for held in live.values() for event in held]
