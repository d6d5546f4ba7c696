"""The part of a run that tables are made of: all iterations after the first, or the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.iterations import Iterations

_USUAL = 0.1
"""So far from the middle one, an iteration still stands for the others."""


@dataclass(frozen=True)
class Window:
    """A stretch of virtual time, but for `gaps` in it: iterations that are set apart.

    `iterations`: how many it has; 0 if it is the whole run.
    """

    begin_ns: int
    end_ns: int
    iterations: int
    gaps: tuple[tuple[int, int], ...] = ()
    """Begins and ends, in order."""

    @property
    def length_ns(self) -> int:
        """Without the gaps."""
        return self.end_ns - self.begin_ns - sum(end - begin for begin, end in self.gaps)

    def parts(self) -> list[Window]:
        """The stretches between the gaps."""
        begins_ns = [self.begin_ns, *(end for _, end in self.gaps)]
        ends_ns = [*(begin for begin, _ in self.gaps), self.end_ns]
        pairs = zip(begins_ns, ends_ns, strict=True)
        return [Window(begin, end, self.iterations) for begin, end in pairs if begin < end]

    @property
    def borders_ns(self) -> tuple[int, int]:
        """Begin and end."""
        return self.begin_ns, self.end_ns

    def ended_in(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """The spans that ended in it: work that crosses its end counts to the next."""
        return np.asarray(spans[self.holds(spans["end_ns"])])

    def operations_in(self, data: RunData) -> list[dict[str, Any]]:
        """The operations that ended in it."""
        ends_ns = np.array([max(one["ends_ns"]) for one in data.operations], np.int64)
        return [data.operations[number] for number in np.flatnonzero(self.holds(ends_ns))]

    def holds(self, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which instants lie in it: its end does, its begin does not."""
        inside = (times_ns > self.begin_ns) & (times_ns <= self.end_ns)
        for begin_ns, end_ns in self.gaps:
            inside &= (times_ns <= begin_ns) | (times_ns > end_ns)
        return inside


def whole_run(data: RunData) -> Window:
    """From the start to the end of the last span."""
    return Window(-1, int(data.spans["end_ns"].max()) if len(data.spans) else 0, 0)


def steady_window(data: RunData, iterations: Iterations) -> Window:
    """All iterations after the first that do equal work; the whole run if there are none."""
    if not iterations.count:
        return whole_run(data)
    times_ns = iterations.boundaries_ns.tolist()
    apart = np.flatnonzero(~iterations.alike).tolist()
    gaps = tuple((times_ns[number], times_ns[number + 1]) for number in apart)
    return Window(times_ns[0], times_ns[-1], iterations.compared, gaps)


def last_iteration(data: RunData, iterations: Iterations) -> Window:
    """The last whole iteration of those that do equal work and last about as long as the middle
    one, as an epoch's last batch need not; the whole run if there is none.
    """
    if not iterations.count:
        return whole_run(data)
    middle_ns = np.median(iterations.compared_ns)
    off_ns = np.abs(iterations.compared_ns - middle_ns)
    usual = off_ns <= max(_USUAL * middle_ns, off_ns.min())
    last = int(np.flatnonzero(iterations.alike)[usual][-1])
    begin_ns, end_ns = iterations.boundaries_ns[last : last + 2].tolist()
    return Window(begin_ns, end_ns, 1)
