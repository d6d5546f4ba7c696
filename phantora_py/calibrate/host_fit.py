"""Times of a processor, fitted to pieces of work that were timed and counted.

Each sample says: so much processor time for these counts. Times of the kinds are found that are
none negative and whose sums are near the samples' in ratio.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from phantora_py.calibrate.least_squares import Vector, fit
from sim_server.cpu import CALLS, WORKS

KINDS = (*WORKS, *(f"call {call}" for call in CALLS))
# Where the fit starts, in ns, and by which factors a time may differ from that: no processor is ten
# times as fast as one of 2023 (assumed).
_START_NS = {
    **{"frame": 50.0, "instruction": 3.0, "dispatch": 800.0, "backward": 50000.0, "node": 1500.0},
    **{"tensor": 500.0, "view": 400.0, "binding": 300.0, "wrap": 150.0, "rewrap": 30.0},
    **{"call sync": 5000.0, "call collective": 15000.0},
}
_START_CALL_NS = 800.0
_LOWEST, _HIGHEST = 0.02, 30.0


@dataclass(frozen=True)
class Piece:
    """The samples of one piece of work: its usual time and its counts."""

    name: str
    spent_ns: float
    counts: Mapping[str, int]

    def less(self, other: Piece) -> Piece:
        """Without what it has in common with `other`."""
        counts = {kind: self.counts[kind] - other.counts[kind] for kind in KINDS}
        return Piece(self.name, self.spent_ns - other.spent_ns, counts)


@dataclass(frozen=True)
class HostFit:
    """Times by kind, in ns, and by piece of what part of the truth the model says."""

    times_ns: Mapping[str, float]
    ratios: Mapping[str, float]
    unknown: tuple[str, ...]
    """Kinds of which the pieces have none."""

    @property
    def median_error(self) -> float:
        """Of the pieces."""
        return statistics.median(abs(ratio - 1) for ratio in self.ratios.values())


def counts_of(sample: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """By KINDS."""
    return {
        **{work: sample["works"][work] for work in WORKS},
        **{f"call {call}": sample["calls"][call] for call in CALLS},
    }


def predicted_ns(times_ns: Mapping[str, float], counts: Mapping[str, int]) -> float:
    """What the model says of these counts."""
    return sum(times_ns.get(kind, 0.0) * count for kind, count in counts.items())


def fit_host(pieces: Sequence[Piece]) -> HostFit:
    """The times that fit these pieces best."""
    known = [kind for kind in KINDS if any(piece.counts[kind] for piece in pieces)]
    matrix = np.array([[piece.counts[kind] for kind in known] for piece in pieces], np.float64)
    spent_ns = np.array([piece.spent_ns for piece in pieces], np.float64)

    def residuals(times_ns: Vector) -> Vector:
        return np.log(matrix @ times_ns) - np.log(spent_ns)

    start = np.array([_START_NS.get(kind, _START_CALL_NS) for kind in known])
    found = fit(residuals, start, start * _LOWEST, start * _HIGHEST)
    ratios = np.exp(residuals(found.constants))
    return HostFit(
        dict(zip(known, found.constants.tolist(), strict=True)),
        dict(zip((piece.name for piece in pieces), ratios.tolist(), strict=True)),
        tuple(kind for kind in KINDS if kind not in known),
    )
