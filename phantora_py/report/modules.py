"""Where the time of GPUs goes in the model: by the module for which work was issued, and phase.

A rank tells with its work for which module it issues it (csrc/shim/modules/scope.cc); the data file
has when that changed. Work belongs to the module of its issue, whenever it runs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.data.rows import NUMBERED_PHASES, PHASES
from phantora_py.report.exposed import exposed_spans
from phantora_py.report.gpus import gpu_spans, run_gpus
from phantora_py.report.window import Window
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN
from sim_server.log.scopes import PHASE_BITS

OTHER = PHASES[-1], ""
"""Of what was issued for no module and in no phase."""
UNNAMED = "(unnamed)"
"""The path of a module that was gone before it could be asked for its name."""


@dataclass
class ScopeTimes:
    """Of one module in one phase, without the modules in it. Units: ns, of a mean GPU and
    iteration, or of the whole run if the window is that.
    """

    launches: float = 0.0
    """Kernels, copies and fills."""
    gpu_ns: float = 0.0
    """Of these."""
    communication_ns: float = 0.0
    """Operations that it issued, also where they are hidden."""
    exposed_ns: float = 0.0
    """Of these: moving bytes or waiting for other ranks while nothing is computed."""


def are_scopes_known(data: RunData) -> bool:
    """Whether ranks told of modules and phases, and host time passes between their work."""
    return len(data.scopes) > 0 and data.run["host_time"] != "off"


def scope_times(data: RunData, window: Window) -> dict[tuple[str, str], ScopeTimes]:
    """By phase and path. Empty if ranks told of none, and if no host time passes: then nobody can
    tell which work was issued when.
    """
    if not are_scopes_known(data):
        return {}
    gpus = run_gpus(data)
    whole = sum(data.told.ranks_of(gpu.rank) for gpu in gpus) * max(window.iterations, 1)
    found: dict[tuple[str, str], ScopeTimes] = defaultdict(ScopeTimes)
    for gpu in gpus:
        weight = data.told.ranks_of(gpu.rank) / whole
        scopes = Scopes(data, gpu.rank)
        spans = window.ended_in(gpu_spans(data, gpu))
        spans = spans[(spans["kind"] != HOST_WAIT_SPAN) & (spans["kind"] != COMMUNICATION_SPAN)]
        lasted_ns = spans["end_ns"] - spans["start_ns"]
        for scope, (count, gpu_ns) in scopes.sums(spans, np.ones_like(lasted_ns), lasted_ns):
            found[scope].launches += weight * count
            found[scope].gpu_ns += weight * gpu_ns
        for part in window.parts():
            spans, (total_ns, *exposed_ns) = exposed_spans(data, gpu, part)
            sums = scopes.sums(spans, total_ns, exposed_ns[0] + exposed_ns[1])
            for scope, (moved_ns, own_ns) in sums:
                found[scope].communication_ns += weight * moved_ns
                found[scope].exposed_ns += weight * own_ns
    return dict(found)


class Scopes:
    """What a rank issued work for, from when on."""

    def __init__(self, data: RunData, rank: int) -> None:
        begin, end = np.searchsorted(data.scopes["rank"], [rank, rank + 1])
        rows = data.scopes[begin:end]
        self._times_ns = rows["issue_ns"]
        numbers, which = np.unique(np.append(0, rows["scope"]), return_inverse=True)
        self._which = which
        """Of the time before each row, and after the last: an index of the names."""
        self.names = [_scope(data, rank, int(number)) for number in numbers]
        """Phases and paths."""

    def places(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
        """Of each span, for which of the `names` it was issued."""
        after = np.searchsorted(self._times_ns, spans["issue_ns"], side="right")
        return np.asarray(self._which[after], np.int64)

    def sums(
        self, spans: npt.NDArray[np.void], *values: npt.NDArray[np.int64]
    ) -> list[tuple[tuple[str, str], list[float]]]:
        """Of each scope's spans, for each of the `values` ([spans]) their sum."""
        places = self.places(spans)
        used = np.unique(places)
        sums = [np.bincount(places, one, len(self.names))[used].tolist() for one in values]
        return [
            (self.names[place], list(row)) for place, *row in zip(used.tolist(), *sums, strict=True)
        ]


def _scope(data: RunData, rank: int, number: int) -> tuple[str, str]:
    """Phase and path behind the number of a record."""
    module, phase = divmod(number, 1 << PHASE_BITS)
    return NUMBERED_PHASES[phase], path_of(data, rank, module)


def path_of(data: RunData, rank: int, module: int) -> str:
    """Of a rank's module by its number; empty: none."""
    return data.modules.get((rank, module), UNNAMED) if module else ""
