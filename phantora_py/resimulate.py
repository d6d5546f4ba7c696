"""A recorded run simulated again, in this process: from one data file to another.

Owns what may differ from the recording and what the new file says of itself; the simulation is the
live run's, its records come from `sim_server.replay`.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import time
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.agent.agent import Outcome
from phantora_py.agent.datafile import DataFile
from phantora_py.data import END_KEYS, RunData
from phantora_py.launch.run import describe_end
from sim_server.cluster import Cluster, place
from sim_server.errors import Deadlock, PhantoraError, UsageError
from sim_server.gpu import GpuProfile, load_gpu
from sim_server.recorded_rank import Acts, Approximations, RecordedRank
from sim_server.replay import replay
from sim_server.settings import Settings
from sim_server.simulation import Simulation


def resimulate(data: RunData, cluster: Cluster | None, output: Path) -> Outcome:
    """Simulates `data` on `cluster` (None: on the recorded one) into a data file at `output`.

    Raises: UsageError if the recording does not allow that.
    """
    if not output.resolve().parent.is_dir():
        raise UsageError(f"The directory of {output} does not exist.")
    if output.resolve() == data.path.resolve():
        raise UsageError(f"{output} is the recording itself; name another file with -o.")
    recorded = Settings.from_json(json.dumps(data.settings))
    settings = recorded if cluster is None else _settings_on(cluster, recorded, data)
    same = settings.to_json() == recorded.to_json()
    approximations = Approximations()
    acts = Acts() if same else Acts(map(data.answers, range(recorded.ranks)))
    ranks = [
        RecordedRank(rank, data.records(rank), data.answers(rank), same, approximations, acts)
        for rank in range(recorded.ranks)
    ]
    start = _describe(data, settings)
    start_s, cpu_start_s = time.monotonic(), _cpu_s()
    file = DataFile(output, start, settings.to_json())
    try:
        outcome = _simulate(Simulation(settings), ranks, data, file)
        resimulation = {
            "of": data.path.name,
            "cluster_name": data.run["cluster_name"],
            "same_settings": same,
            "same_history": _is_same(file, data, same),
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
    """Whether the digests agree; None where they need not or the recording broke off."""
    return None if data.broke_off or not same_settings else file.digest == data.run["digest"]


def _simulate(
    simulation: Simulation, ranks: list[RecordedRank], data: RunData, file: DataFile
) -> Outcome:
    """How the run ends this time; a failure that only its processes knew is taken from `data`."""
    run = data.run
    tables = json.dumps(run.get("deadlock", []))
    outcome = Outcome(
        run.get("exit_code", 0), run.get("message", ""), run.get("failed_rank"), tables
    )
    try:
        replay(simulation, ranks, data.exits, file.write, broke_off=data.broke_off)
    except PhantoraError as error:
        tables = json.dumps(error.tables) if isinstance(error, Deadlock) else ""
        outcome = Outcome(error.exit_code, str(error), outcome.failed_rank, tables)
    for name, content in simulation.files():
        file.write(name, content)
    return outcome


def _settings_on(cluster: Cluster, recorded: Settings, data: RunData) -> Settings:
    """The recorded run on another cluster. Raises: UsageError if its ranks would notice."""
    place(cluster, nodes=recorded.nodes, gpus_per_node=recorded.gpus_per_node)
    gpu = load_gpu(cluster.gpu)
    _check_gpu(gpu, recorded.gpu, data)
    return dataclasses.replace(recorded, cluster=cluster, gpu=gpu)


def _check_gpu(gpu: GpuProfile, recorded: GpuProfile, data: RunData) -> None:
    """Libraries choose their kernels by architecture and multiprocessors, and programs fill the
    memory that they see; times may differ.
    """
    again = "run the program again on that cluster"
    if (gpu.compute_capability, gpu.sm_count) != (recorded.compute_capability, recorded.sm_count):
        raise UsageError(
            f"{data.path} was recorded on {_look(recorded)}, and its kernels were chosen for that; "
            f"{_look(gpu)} would run others: {again}"
        )
    peaks = [memory["device_peak_bytes"] for memory in data.memory["per_rank"]]
    if max(peaks, default=0) > gpu.memory_bytes:
        raise UsageError(
            f"{data.path} needs {max(peaks):,} bytes of device memory and {gpu.name} has "
            f"{gpu.memory_bytes:,}; to see what becomes of it {again}"
        )


def _look(gpu: GpuProfile) -> str:
    major, minor = gpu.compute_capability
    return f"{gpu.name} (compute capability {major}.{minor}, {gpu.sm_count} multiprocessors)"


def _describe(data: RunData, settings: Settings) -> dict[str, Any]:
    """start.json: the recorded run's, but for what is simulated and who does it."""
    start = {key: value for key, value in data.run.items() if key not in END_KEYS}
    return start | {
        "cluster": settings.cluster.to_dict(),
        "cluster_name": settings.cluster.name,
        "versions": data.run["versions"] | {"phantora": __version__},
    }


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
