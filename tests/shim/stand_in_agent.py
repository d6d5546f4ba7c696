"""A host agent that answers every wait at once: enough to run rank processes without a simulator.

Owns the files of a run directory and a thread that reads the ranks' records. Time stands still; a
communicator is answered when all its ranks have asked, and a rank's next alarm rings when it has
said nothing for a while. Work has run, for a nanosecond, when it was issued. It must not be used to
test timing.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

CELL_BYTES = 64
RING_CELLS = 1 << 16
PAYLOAD_AT = 36
SLOT_BYTES = (PAYLOAD_AT + 16384 + 7) // 8 * 8
SLOTS_AT = 256
CELLS_AT = (SLOTS_AT + 16 * SLOT_BYTES + 4095) // 4096 * 4096
CHANNEL_BYTES = CELLS_AT + RING_CELLS * CELL_BYTES
AWAITS_ANY_AT, HEAD_AT, TAIL_AT, ASKED_AT, TOLD_AT = 56, 64, 128, 140, 144
LOOKING_UP_AT = 196
ADDRESSES, ADDRESS_BYTES, FIRST_USE_BYTES = 1 << 16, 16, 8
CALLS_BYTES, CELL_OF_CALLS_BYTES = 8, 12
ROW_BYTES = CALLS_BYTES + 128 * CELL_OF_CALLS_BYTES
# In the switchboard: how many calls of rank 0 to everyone and to itself have begun, how many ended.
CALLS_TO_EVERYONE_AT = 8 + ADDRESSES * ADDRESS_BYTES + FIRST_USE_BYTES
CALLS_AT = CALLS_TO_EVERYONE_AT + CALLS_BYTES + CELL_OF_CALLS_BYTES + 4
SYS_FUTEX, FUTEX_WAKE, EVERYBODY = 202, 1, 0x7FFFFFFF

WAIT, COMM_INIT, COMM_SPLIT, RESUME, ALARM, ACTIVITIES = 32, 7, 8, 9, 11, 14
ANNOUNCES = 2
# Records of work: the last word is a number by which the rank asks when it ran.
KERNEL, COPY, FILL, NCCL_LAUNCH = 18, 19, 20, 24
# Before the next alarm rings; generous for a thread that is about to wake another (assumed).
QUIET_S = 0.1

GPU_KEYS = {
    "gpu.name": "stand-in",
    "gpu.totalGlobalMem": str(80 << 30),
    "gpu.context_bytes": str(500 << 20),
    "gpu.nccl_bytes_per_communicator": str(64 << 20),
}


def write_settings(run_dir: Path, ranks: int, changes: Mapping[str, str]) -> None:
    """Writes shim.conf; `changes` replace keys of it."""
    costs = ("light", "launch", "library", "copy", "event", "sync", "alloc", "collective", "setup")
    settings = {
        "ranks": str(ranks),
        "host_time": "fixed",
        "host_tensors": "real",
        "unsupported": "stop",
        "torch.list_kib": "32",
        "nccl.version": "23007",
        "host.cpu_factor": "1.0",
        "host.clock_read_ns": "20",
        "host.query_ns": "500",
        "values.threshold_bytes": str(64 << 10),
        "epoch.realtime_ns": "1700000000000000000",
        "epoch.monotonic_ns": "1000000000",
        "gpu.count": str(ranks),
        **{f"host.{cost}_ns": "1000" for cost in costs},
        **{f"host.driver_{cost}_ns": "600" for cost in costs},
        **GPU_KEYS,
        **changes,
    }
    text = "".join(f"{key} = {value}\n" for key, value in settings.items())
    (run_dir / "shim.conf").write_text(text)


class StandInAgent:
    """Serves the channels of `ranks` ranks under `run_dir` until closed."""

    def __init__(self, run_dir: Path, ranks: int) -> None:
        self.records: dict[int, list[bytes]] = defaultdict(list)
        self._asked: dict[tuple[int, ...], list[tuple[int, int, int]]] = defaultdict(list)
        self._members: dict[int, list[int]] = {}
        self._announced: set[tuple[int, tuple[int, ...]]] = set()  # rank, of what
        self._waiting: dict[tuple[int, tuple[int, ...]], int] = {}  # in which slot
        self._made: dict[tuple[int, tuple[int, ...]], tuple[int, list[int]]] = {}
        self._alarms: dict[int, list[int]] = defaultdict(list)
        self._clock_ns: dict[int, int] = defaultdict(int)
        self._activities: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._alarm_slots: dict[int, int] = {}
        self._heard_s: dict[int, float] = defaultdict(time.monotonic)
        self._channels = [self._make_channel(run_dir, rank) for rank in range(ranks)]
        self._make_switchboard(run_dir, ranks)
        self._closing = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Stops serving; the records stay readable."""
        self._closing = True
        self._thread.join()

    def _make_switchboard(self, run_dir: Path, ranks: int) -> None:
        head = struct.pack("<II", 0, ranks)
        size_bytes = ADDRESSES * ADDRESS_BYTES + FIRST_USE_BYTES + ranks * ROW_BYTES
        (run_dir / "switchboard").write_bytes(head + bytes(size_bytes))

    def _make_channel(self, run_dir: Path, rank: int) -> mmap.mmap:
        path = run_dir / f"rank-{rank}.channel"
        head = b"PHCHANN1" + struct.pack("<II", 1, rank)
        path.write_bytes(head.ljust(CHANNEL_BYTES, b"\0"))
        with path.open("r+b") as file:
            return mmap.mmap(file.fileno(), CHANNEL_BYTES)

    def _serve(self) -> None:
        while not self._closing:
            for rank in range(len(self._channels)):
                self._read(rank)
                self._ring_next(rank)
                self._tell_children(rank)
            time.sleep(0.0005)
        for rank in range(len(self._channels)):
            self._read(rank)

    def _read(self, rank: int) -> None:
        channel = self._channels[rank]
        if channel[HEAD_AT : HEAD_AT + 8] != channel[TAIL_AT : TAIL_AT + 8]:
            self._heard_s[rank] = time.monotonic()
        (head,) = struct.unpack_from("<Q", channel, HEAD_AT)
        (tail,) = struct.unpack_from("<Q", channel, TAIL_AT)
        while tail < head:
            cell = self._cell(channel, tail)
            tail += 1
            if cell[0] < 16:  # a payload follows
                (payload_bytes,) = struct.unpack_from("<Q", cell, 24)
                cells = (payload_bytes + CELL_BYTES - 1) // CELL_BYTES
                cell += b"".join(self._cell(channel, tail + i) for i in range(cells))
                tail += cells
            self.records[rank].append(cell)
            self._clock_ns[rank] += struct.unpack_from("<Q", cell, 8)[0]
            if cell[0] == WAIT:
                self._on_wait(rank, cell)
            (number,) = struct.unpack_from("<Q", cell, 24 + 4 * 8)
            if cell[0] in (KERNEL, COPY, FILL, NCCL_LAUNCH) and number != 0:
                self._activities[rank].append((number, self._clock_ns[rank]))
        struct.pack_into("<Q", channel, TAIL_AT, tail)

    def _cell(self, channel: mmap.mmap, index: int) -> bytes:
        at = CELLS_AT + index % RING_CELLS * CELL_BYTES
        return channel[at : at + CELL_BYTES]

    def _on_wait(self, rank: int, cell: bytes) -> None:
        (kind,) = struct.unpack_from("<I", cell, 16)
        first, second, third, fourth, slot = struct.unpack_from("<5q", cell, 24)
        if kind == ALARM:
            self._alarm_slots[rank] = slot
            if second == 0:
                self._alarms[rank].append(first)
            elif first in self._alarms[rank]:
                self._alarms[rank].remove(first)
        elif kind == COMM_INIT:
            self._meet((COMM_INIT, first), second, (0, third, rank), slot, cell[1])
        elif kind == COMM_SPLIT:
            size = len(self._members[first])
            self._meet((COMM_SPLIT, first, fourth), size, (second, third, rank), slot, cell[1])
        elif kind == ACTIVITIES:
            times = [(number, at_ns, at_ns + 1) for number, at_ns in self._activities.pop(rank, [])]
            words = struct.unpack(
                f"<{6 * len(times)}I", b"".join(struct.pack("<3Q", *one) for one in times)
            )
            self._answer(rank, slot, 0, list(words))
        else:
            # A sleep ends at its time; nobody else moves a rank's clock.
            self._answer(rank, slot, 0, [], self._clock_ns[rank] if kind == RESUME else 0)

    def _tell_children(self, rank: int) -> None:
        """Says at once that they wait, without a look."""
        channel = self._channels[rank]
        (asked,) = struct.unpack_from("<I", channel, ASKED_AT)
        if struct.unpack_from("<I", channel, TOLD_AT) != (2 * asked,):
            struct.pack_into("<I", channel, TOLD_AT, 2 * asked)
            _wake(channel, TOLD_AT)

    def _ring_next(self, rank: int) -> None:
        if not self._alarms[rank] or time.monotonic() < self._heard_s[rank] + QUIET_S:
            return
        self._heard_s[rank] = time.monotonic()
        time_ns = min(self._alarms[rank])
        self._alarms[rank].remove(time_ns)
        self._answer(rank, self._alarm_slots[rank], 0, [], time_ns)

    def _meet(
        self, key: tuple[int, ...], size: int, asker: tuple[int, int, int], slot: int, flags: int
    ) -> None:
        """Answers at once where a rank only announces itself, else when all have come."""
        place = asker[2], key
        if flags & ANNOUNCES:
            self._announced.add(place)
            self._answer(place[0], slot, 0, [])
            self._gather(key, size, asker)
            return
        self._waiting[place] = slot
        if place in self._announced:
            self._announced.remove(place)
        else:
            self._gather(key, size, asker)
        self._tell(place)

    def _tell(self, place: tuple[int, tuple[int, ...]]) -> None:
        if place in self._waiting and place in self._made:
            self._answer(place[0], self._waiting.pop(place), *self._made.pop(place))

    def _gather(self, key: tuple[int, ...], size: int, asker: tuple[int, int, int]) -> None:
        """When `size` ranks have asked: a communicator per colour, ordered by key, rank."""
        asked = self._asked[key]
        asked.append(asker)
        if len(asked) < size:
            return
        del self._asked[key]
        for color in sorted({asker[0] for asker in asked}):
            group = sorted(asker[1:] for asker in asked if asker[0] == color)
            members = [rank for _, rank in group]
            communicator = 0 if color == -1 else len(self._members) + 1
            if communicator:
                self._members[communicator] = members
            for place, rank in enumerate(members):
                self._made[rank, key] = communicator, [*members, place] if communicator else []
                self._tell((rank, key))

    def _answer(
        self,
        rank: int,
        slot: int,
        value: int,
        members: list[int],
        time_ns: int = 0,
        *,
        status: int = 0,
    ) -> None:
        channel = self._channels[rank]
        at = SLOTS_AT + slot * SLOT_BYTES
        struct.pack_into("<IIQQ", channel, at + 8, status, 4 * len(members), time_ns, value)
        struct.pack_into(f"<{len(members)}I", channel, at + PAYLOAD_AT, *members)
        for place, word in ((at + 4, 1), (AWAITS_ANY_AT, 0)):
            struct.pack_into("<I", channel, place, word)
            _wake(channel, place)


def _wake(channel: mmap.mmap, at: int) -> None:
    word = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(channel, at)))
    ctypes.CDLL(None).syscall(SYS_FUTEX, word, FUTEX_WAKE, EVERYBODY, None, None, 0)
