"""What each part of the cluster is worth: the run simulated again with the part 10 % faster.

Every simulation is compared with one that changes nothing, and not with the recording, so that
what a resimulation approximates (docs/decisions/resimulation.md) is in both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.sections.sensitivity import Lever, Sensitivity
from phantora_py.runs.resimulate import resimulate
from phantora_py.runs.what_if import WhatIf
from sim_server.errors import UsageError
from sim_server.kernels import KernelScale

_FASTER = 1.1
# Classes of kernels that are a lever each; the others are bound by memory, or too few to matter.
_KERNELS = ("gemm", "attention")
_BANDWIDTHS = ("memory", "nvlink", "nic")
_TIMES = ("latency", "host")


def find_sensitivity(data: RunData, tell: Callable[[str], None] = lambda _: None) -> Sensitivity:
    """Simulates the run once for each lever. `tell` is told which is next.

    Raises: UsageError for a run that has no iteration or cannot be simulated again.
    """
    if not Findings(data).median_ns:
        raise UsageError(
            f"{data.path} has no iteration that takes time, so that nothing shortens one. "
            "--iteration tells what an iteration is."
        )
    tell("as it is")
    as_it_is_ns = _median_ns(data, WhatIf(is_control=True))
    levers: list[Lever] = []
    for name, what_if in _levers(data):
        tell(name)
        median_ns = as_it_is_ns if what_if is None else _median_ns(data, what_if)
        levers.append(
            {"name": name, "iteration_ns": median_ns, "shorter": 1 - median_ns / as_it_is_ns}
        )
    levers.sort(key=lambda one: -one["shorter"])
    return {"faster": _FASTER, "iteration_ns": as_it_is_ns, "levers": levers}


def _levers(data: RunData) -> Iterator[tuple[str, WhatIf | None]]:
    """None: the run has nothing of it."""
    classes = {timing["class"] for timing in data.timings}
    for name in _KERNELS:
        scale = KernelScale(name, 1 / _FASTER)
        yield name, WhatIf(kernels=(scale,), is_control=True) if name in classes else None
    for name in _BANDWIDTHS:
        yield name, WhatIf(parts={name: _FASTER}, is_control=True)
    for name in _TIMES:
        yield name, WhatIf(parts={name: 1 / _FASTER}, is_control=True)


def _median_ns(data: RunData, what_if: WhatIf) -> int:
    """Of the iteration under these conditions. Raises: UsageError if the run ends otherwise."""
    with tempfile.TemporaryDirectory(prefix="phantora-") as folder:
        path = Path(folder) / "again.phr"
        outcome = resimulate(data, what_if, path)
        found = Findings(RunData(path, data.iteration))
        if outcome.exit_code != data.run.get("exit_code", 0) or not found.median_ns:
            raise UsageError(
                f"{data.path} does not come to its end when it is simulated again: "
                f"{outcome.message or 'it has no iteration then'}"
            )
        return found.median_ns
