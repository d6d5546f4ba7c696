"""A recorded run simulated again, in this process: from one data file to another.

Owns what the new file says of itself. What may differ from the recording is `what_if`; the
simulation is the live run's, its records come from `sim_server.sources`.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.agent.datafile import DataFile
from phantora_py.agent.parts import Outcome
from phantora_py.data import END_KEYS, RunData
from phantora_py.runs.run import describe_end
from phantora_py.runs.what_if import WhatIf
from sim_server.errors import Deadlock, PhantoraError, UsageError
from sim_server.files.output_file import require_output
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.sources.drive import drive
from sim_server.sources.recorded import Acts, Approximations, RecordedRank

# What engine and server raise for records that are each as they should be and do not fit together.
NOT_SIMULATED = (ValueError, LookupError, ArithmeticError)

Watch = Callable[[Simulation], AbstractContextManager[object]]
"""Looks at a simulation while it goes on, from another thread."""


def resimulate(data: RunData, what_if: WhatIf, output: Path, watch: Watch = nullcontext) -> Outcome:
    """Simulates `data`, with the changes of `what_if`, into a data file at `output`.

    Raises: UsageError if the recording does not allow that.
    """
    require_output(output, "-o", [data.path])
    if data.told.fold is not None:
        raise UsageError(
            f"{data.path} is a folded run, which is not simulated again: run the program with the "
            "other settings instead."
        )
    recorded = data.told_settings
    settings = what_if.settings(data, recorded)
    free_host = what_if.host_time_off and data.run["host_time"] != "off"
    host_factor = 1.0 if data.run["host_time"] == "off" else what_if.host_factor
    changed = settings.to_json() != recorded.to_json() or host_factor != 1
    same = not (changed or what_if.kernels or what_if.is_control)
    approximations = Approximations()
    acts = Acts() if same else Acts(map(data.answers, range(recorded.ranks)))
    ranks = [
        RecordedRank(
            *(rank, data.records(rank), data.answers(rank), same, approximations, acts),
            host_factor=host_factor,
        )
        for rank in range(recorded.ranks)
    ]
    timer = what_if.timer(data, settings)
    start = _describe(data, settings, free_host)
    start_s, cpu_start_s = time.monotonic(), _cpu_s()
    file = DataFile(output, start, settings.to_json())
    try:
        simulation = Simulation(settings, timer)
        with watch(simulation):
            outcome = _simulate(simulation, ranks, data, file)
        resimulation = {
            "of": data.path.name,
            "cluster_name": data.run["cluster_name"],
            "same_settings": same,
            "same_history": _is_same(file, data, same),
            "what_if": what_if.to_dict(),
            **vars(approximations),
        }
        total_s = time.monotonic() - start_s
        wall = {"total_s": total_s, "startup_s": 0.0, "core_seconds": _cpu_s() - cpu_start_s}
        end = describe_end(outcome, file.digest, wall)
        file.complete(start | end | {"resimulation": resimulation})
    except BaseException:
        file.discard()
        raise
    return outcome


def _is_same(file: DataFile, data: RunData, same_settings: bool) -> bool | None:
    """Whether the digests agree; None where they need not or the recording was cut."""
    return None if data.is_cut or not same_settings else file.digest == data.run["digest"]


def _simulate(
    simulation: Simulation, ranks: list[RecordedRank], data: RunData, file: DataFile
) -> Outcome:
    """How the run ends this time; a failure that only its processes knew is taken from `data`."""
    run = data.run
    tables = json.dumps(run.get("deadlock", []))
    outcome = Outcome(
        *(run.get("exit_code", 0), run.get("message", ""), run.get("failed_rank"), tables),
        unsimulated=run.get("unsimulated", []),
    )
    try:
        drive(simulation, ranks, data.exits, file.write, broke_off=data.is_cut)
    except NOT_SIMULATED as error:
        raise UsageError(
            f"{data.path} is damaged: what its ranks recorded cannot be simulated: {error!r}. If "
            "phantora wrote it so, this is a fault of phantora; please report it."
        ) from error
    except PhantoraError as error:
        tables = json.dumps(error.tables) if isinstance(error, Deadlock) else ""
        outcome = replace(outcome, exit_code=error.exit_code, message=str(error), tables=tables)
    for name, content in simulation.files():
        file.write(name, content)
    return outcome


def _describe(data: RunData, settings: Settings, free_host: bool) -> dict[str, Any]:
    """start.json: the recorded run's, but for what is simulated and who does it."""
    start = {key: value for key, value in data.run.items() if key not in END_KEYS}
    others = {
        name: value
        for name, value in start.get("environment", {}).items()
        if not name.startswith("NCCL_")
    }
    return start | {
        "environment": others | dict(settings.nccl_environment),
        "host_time": "off" if free_host else start["host_time"],
        "cluster": settings.cluster.to_dict(),
        "cluster_name": settings.cluster.name,
        "versions": data.run["versions"] | {"phantora": __version__},
    }


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
