"""Where the time of GPUs goes in the model: by the module for which work was issued, and phase.

A rank marks when it begins to issue work for a module (phantora_py/rank/modules.py). Work belongs
to the last mark before its issue, whenever it runs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.data.rows import PHASES
from phantora_py.report.exposed import exposed_spans
from phantora_py.report.gpus import gpu_spans, run_gpus
from phantora_py.report.window import Window
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN

OTHER = PHASES[-1], ""
"""Of what was issued for no module and in no phase."""


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


def scope_times(data: RunData, window: Window) -> dict[tuple[str, str], ScopeTimes]:
    """By phase and path. Empty without marks, and if no host time passes: then nobody can tell
    which work was issued after which mark.
    """
    if not data.modules or data.run["host_time"] == "off":
        return {}
    marks: dict[int, list[tuple[int, tuple[str, str]]]] = defaultdict(list)
    for rank, time_ns, phase, path in data.modules:
        marks[rank].append((time_ns, (phase, path)))
    gpus = run_gpus(data)
    whole = sum(data.told.ranks_of(gpu.rank) for gpu in gpus) * max(window.iterations, 1)
    found: dict[tuple[str, str], ScopeTimes] = defaultdict(ScopeTimes)
    for gpu in gpus:
        weight = data.told.ranks_of(gpu.rank) / whole
        scopes = _Scopes(marks[gpu.rank])
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


class _Scopes:
    """What a rank issued work for, from when on."""

    def __init__(self, marks: list[tuple[int, tuple[str, str]]]) -> None:
        self._times_ns = np.array([time_ns for time_ns, _ in marks], np.int64)
        self._names = [OTHER, *(scope for _, scope in marks)]

    def sums(
        self, spans: npt.NDArray[np.void], *values: npt.NDArray[np.int64]
    ) -> list[tuple[tuple[str, str], list[float]]]:
        """Of each scope's spans, for each of the `values` ([spans]) their sum."""
        # As marks of iterations: what is issued at that time was issued before.
        places = np.searchsorted(self._times_ns, spans["issue_ns"], side="left")
        used = np.unique(places)
        sums = [np.bincount(places, one, len(self._names))[used].tolist() for one in values]
        return [
            (self._names[place], list(row))
            for place, *row in zip(used.tolist(), *sums, strict=True)
        ]
