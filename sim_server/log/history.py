"""The history of a run, in an order that virtual time alone decides, and its digest.

The engine tells what has ended in the order in which it found out, which may depend on delivery
among things of one instant. Rows whose time has passed are put in order here, kernels and
operations numbered as they first occur, and all of it handed on in pieces, so that the memory that
a run takes does not grow with its length.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sim_server.kernels import Tier, Timing
from sim_server.kernels.flops import Products

KERNEL_SPAN = 1
COPY_SPAN = 2
FILL_SPAN = 3
COMMUNICATION_SPAN = 4
HOST_WAIT_SPAN = 5

# A piece of spans is some 1.5 MB, which compresses to a tenth (assumed to suit any disk).
PIECE_ROWS = 1 << 15

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
# The last is the first to sort by. Rows that agree in all of them stay as the engine listed them.
_ORDER = ("start_ns", "issue_ns", "stream", "device", "kind", "rank", "end_ns")

Piece = tuple[str, bytes]
"""Name and content of a member of the data file."""


class Rows:
    """JSON rows that leave in numbered pieces: `name/000000.json`, each a list."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: list[str] = []
        self._pieces = 0
        self._hash = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: object, derived: Mapping[str, Any] | None = None) -> None:
        """Append a row. `derived`: further members of an object, which the digest is without."""
        text = json.dumps(row, sort_keys=True)
        self._hash.update(text.encode() + b"\n")
        self._rows.append(f"{text[:-1]}, {json.dumps(derived)[1:]}" if derived else text)

    def take(self) -> Iterator[Piece]:
        """What has been added since the last call, as one piece if it is anything."""
        if self._rows:
            content = "[" + ",\n".join(self._rows) + "]"
            yield f"{self._name}/{self._pieces:06}.json", content.encode()
            self._pieces += 1
            self._rows.clear()

    def digest(self) -> bytes:
        """Of all rows ever added, however they were cut into pieces."""
        return self._hash.digest()


class History:
    """Spans, and the timings and operations that they refer to."""

    def __init__(self) -> None:
        self._timings: dict[bytes, Timing] = {}
        self._indexes: dict[bytes, int] = {}
        self._by_index: list[Timing] = []
        self._signatures: list[bytes] = []
        self._products: list[Products | None] = []
        self._numbers = np.full(64, -1, np.int64)  # of timings in the file, by index
        self._numbered = 0
        self._ended: list[np.ndarray] = []
        self._settled: list[np.ndarray] = []
        self._settled_rows = 0
        self._pieces = 0
        self._hash = hashlib.sha256()
        self._timing_rows = Rows("timings")
        self._operation_rows = Rows("operations")

    def timing(self, signature: bytes) -> Timing | None:
        """The timing of a signature that was seen before, of whatever rank."""
        return self._timings.get(signature)

    def add_timing(
        self, signature: bytes, timing: Timing, products: Products | None = None
    ) -> Timing:
        """Keep the timing of a new signature, and what it multiplies."""
        self._indexes[signature] = len(self._by_index)
        self._timings[signature] = timing
        self._by_index.append(timing)
        self._signatures.append(signature)
        self._products.append(products)
        if len(self._by_index) > len(self._numbers):
            self._numbers = np.append(self._numbers, np.full_like(self._numbers, -1))
        return timing

    def timing_index(self, signature: bytes) -> int:
        """The number that the engine's spans carry for a signature."""
        return self._indexes[signature]

    def add_operation(self, operation: Mapping[str, Any], derived: Mapping[str, Any]) -> None:
        """Keep an operation, in the order in which the engine is told that they finish.

        `derived` follows from the rest of the run; the digest is without it.
        """
        self._operation_rows.add(operation, derived)

    def add_spans(self, spans: np.ndarray, before_ns: int) -> None:
        """Keep finished work. Later calls bring nothing that ends before `before_ns`."""
        # The packed type: padding of the engine's structure would reach the digest.
        self._ended.append(spans.astype(SPAN_TYPE))
        ended = np.concatenate(self._ended)
        is_past = ended["end_ns"] < before_ns
        self._ended = [ended[~is_past]]
        self._settle(ended[is_past])

    def end_at(self, time_ns: int) -> None:
        """Keep what ended up to then, which has not been settled, and forget the rest."""
        self.add_spans(np.empty(0, SPAN_TYPE), time_ns + 1)
        self._ended = []

    def _settle(self, rows: np.ndarray) -> None:
        rows = rows[np.lexsort([rows[field] for field in _ORDER])]
        kernels = rows["kind"] == KERNEL_SPAN
        indexes = rows["id"][kernels]
        fresh, first = np.unique(indexes[self._numbers[indexes] < 0], return_index=True)
        for index in fresh[np.argsort(first)]:
            self._number(int(index))
        rows["id"][kernels] = self._numbers[indexes]
        self._hash.update(rows.tobytes())
        self._settled.append(rows)
        self._settled_rows += len(rows)

    def _number(self, index: int) -> None:
        self._numbers[index] = self._numbered
        self._numbered += 1
        timing = self._by_index[index]
        self._timing_rows.add(
            {
                "name": timing.name,
                "class": timing.kernel_class,
                "tier": timing.tier.value,
                "duration_ns": timing.duration_ns,
            },
            derived=_counted(self._products[index]) | _doubt(timing, self._signatures[index]),
        )

    def is_full(self) -> bool:
        """Whether enough has gathered for a piece."""
        return max(self._settled_rows, len(self._operation_rows)) >= PIECE_ROWS

    def take(self) -> Iterator[Piece]:
        """What has settled since the last call. What spans refer to comes before them."""
        yield from self._timing_rows.take()
        yield from self._operation_rows.take()
        if self._settled_rows:
            buffer = io.BytesIO()
            np.save(buffer, np.concatenate(self._settled))
            yield f"spans/{self._pieces:06}.npy", buffer.getvalue()
            self._pieces += 1
            self._settled.clear()
            self._settled_rows = 0

    def digest(self) -> str:
        """One number for the whole history: equal runs have equal digests."""
        whole = hashlib.sha256(self._hash.digest())
        whole.update(self._timing_rows.digest())
        whole.update(self._operation_rows.digest())
        return whole.hexdigest()


def _counted(products: Products | None) -> dict[str, Any]:
    if products is None:
        return {}
    counted: dict[str, Any] = {"flops": products.flops, "type": products.type}
    return counted | ({"images": products.images} if products.images else {})


def _doubt(timing: Timing, signature: bytes) -> dict[str, Any]:
    """What the file says about the error of a duration, and, if models alone would not find it
    again, what it is of.
    """
    interval = timing.interval
    if interval is None:
        return {}
    told = json.loads(signature)
    doubt = {"interval": [interval.low, interval.high], "interval_source": interval.source}
    if timing.tier in (Tier.MEASURED, Tier.INTERPOLATED):
        doubt["signature"] = told
    # Named where it is not the run's first (`sim_server.kernels.mixed`).
    return doubt | ({"gpu": told["gpu"]} if "gpu" in told else {})
