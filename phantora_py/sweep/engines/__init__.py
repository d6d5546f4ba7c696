"""Where the runs of a sweep go on: on this machine, in Slurm, in Ray. No scheduler of our own."""

from __future__ import annotations

from collections.abc import Callable

from phantora_py.sweep.engines import ray_tasks, slurm
from phantora_py.sweep.engines.engine import Engine
from phantora_py.sweep.engines.local import LocalEngine
from phantora_py.sweep.engines.ray_tasks import RayEngine
from phantora_py.sweep.engines.slurm import SlurmEngine
from phantora_py.sweep.results import Results

ENGINES: dict[str, Callable[[Results, int | None], Engine]] = {
    "local": LocalEngine,
    "slurm": SlurmEngine,
    "ray": RayEngine,
}
"""By name: makes an engine of where results lie and how many may run at a time, None: as many as it
finds room for. Raises: UsageError if the engine is not to be had here.
"""


def require(engine: str) -> None:
    """For who makes an engine only later. Raises: UsageError if it is not installed here."""
    match engine:
        case "slurm":
            slurm.require()
        case "ray":
            ray_tasks.require()
