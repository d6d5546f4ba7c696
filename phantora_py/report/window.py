"""The part of a run that tables are made of: all iterations after the first, or the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.iterations import Iterations


@dataclass(frozen=True)
class Window:
    """A stretch of virtual time. `iterations`: how many it has; 0 if it is the whole run."""

    begin_ns: int
    end_ns: int
    iterations: int

    @property
    def borders_ns(self) -> tuple[int, int]:
        """Begin and end."""
        return self.begin_ns, self.end_ns

    def ended_in(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """The spans that ended in it: work that crosses its end counts to the next."""
        ends_ns = spans["end_ns"]
        return np.asarray(spans[(ends_ns > self.begin_ns) & (ends_ns <= self.end_ns)])

    def operations_in(self, data: RunData) -> list[dict[str, Any]]:
        """The operations that ended in it."""
        return [
            one for one in data.operations if self.begin_ns < max(one["ends_ns"]) <= self.end_ns
        ]


def whole_run(data: RunData) -> Window:
    """From the start to the end of the last span."""
    return Window(-1, int(data.spans["end_ns"].max()) if len(data.spans) else 0, 0)


def steady_window(data: RunData, iterations: Iterations) -> Window:
    """All iterations after the first; the whole run if there are none."""
    if not iterations.count:
        return whole_run(data)
    begin_ns, *_, end_ns = iterations.boundaries_ns.tolist()
    return Window(begin_ns, end_ns, iterations.count)


def last_iteration(data: RunData, iterations: Iterations) -> Window:
    """The last whole iteration; the whole run if there is none."""
    if not iterations.count:
        return whole_run(data)
    begin_ns, end_ns = iterations.boundaries_ns[-2:].tolist()
    return Window(begin_ns, end_ns, 1)
