"""For which module of the program, and in which phase, ranks issued work and took memory.

Of work it is kept where that changes: of each rank in order, ranks among each other in any.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sim_server.log.history import Piece

SCOPE_TYPE = np.dtype([("rank", "<u4"), ("scope", "<u4"), ("issue_ns", "<i8")])
PHASE_BITS = 3
"""The lowest of `scope`; the others are the number of a module."""

BLOCK_TYPE = np.dtype(
    [
        ("rank", "<u4"),
        ("device", "<u4"),
        ("address", "<u8"),
        ("size_bytes", "<i8"),
        ("begin_ns", "<i8"),
        ("scope", "<u4"),
        ("end_scope", "<i8"),
        ("kind", "<u4"),
        ("module", "<u4"),
    ]
)
"""As statistics of ranks have them (sim_server/records/python_statistics.py)."""


class BlockLog:
    """What PyTorch's allocators had handed out at their peaks: `peak_blocks/000000.npy`."""

    def __init__(self) -> None:
        self._by_device: dict[tuple[int, int], list[tuple[int, ...]]] = {}

    def add(self, rank: int, statistics: Mapping[str, Any]) -> None:
        """Keep a part; the first one takes the place of an earlier peak."""
        device = statistics["device"]
        if statistics["begin"] == 0:
            self._by_device[rank, device] = []
        rows = ((rank, device, *block) for block in statistics["blocks"])
        self._by_device[rank, device].extend(rows)

    def take(self) -> Iterator[Piece]:
        """All of them, if there are any."""
        rows = [row for _, rows in sorted(self._by_device.items()) for row in rows]
        if rows:
            yield "peak_blocks/000000.npy", _content(np.array(rows, BLOCK_TYPE))


class ScopeLog:
    """Rows that leave in numbered pieces: `scopes/000000.npy`."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._pieces = 0

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    def add(self, rows: np.ndarray, last_ns: int | None = None) -> None:
        """Append, of rows that were issued up to `last_ns`."""
        if last_ns is not None:
            rows = rows[rows["issue_ns"] <= last_ns]
        if len(rows):
            self._rows.append(rows.astype(SCOPE_TYPE))

    def end_at(self, time_ns: int) -> None:
        """Forget what came later, of what has not left."""
        rows, self._rows = self._rows, []
        for one in rows:
            self.add(one, time_ns)

    def take(self) -> Iterator[Piece]:
        """What has been added since the last call, as one piece if it is anything."""
        if self._rows:
            yield f"scopes/{self._pieces:06}.npy", _content(np.concatenate(self._rows))
            self._pieces += 1
            self._rows.clear()


def _content(rows: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, rows)
    return buffer.getvalue()
