"""A folder of execution traces simulated, in this process, into a data file (docs/traces.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.agent.parts import Outcome
from phantora_py.data import OF_TRACES, SCHEMA
from phantora_py.runs.simulated_file import Watch, simulate_into
from phantora_py.traces.folder import Kernels, TraceFolder, kernels_of, read_folder
from sim_server.chakra.files import Trace
from sim_server.chakra.graph import Step
from sim_server.cluster import Cluster, place
from sim_server.collectives.version import NEWEST
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output
from sim_server.files.schema import Fault, mapping, parse, text
from sim_server.gpu import GpuProfile
from sim_server.settings import Settings, load_gpus
from sim_server.simulation import Simulation
from sim_server.sources.drive import drive
from sim_server.sources.synthetic import SyntheticRank
from sim_server.sources.traced import TracedProgram
from sim_server.sources.traced_kernels import TracedTimer
from sim_server.timings import model_timer

_NOTES = [
    "simulated from an execution trace: it tells nothing of memory, values or Python lines, and "
    "waits outside the GPU last as long as they did",
]


def simulate_trace(
    directory: Path, cluster: Cluster, output: Path, watch: Watch = nullcontext
) -> Outcome:
    """Simulates the traces of a directory on a cluster, into a data file at `output`.

    Raises: UsageError if they cannot be read, or not be simulated there.
    """
    require_output(output, "-o")
    folder = read_folder(directory)
    settings = _settings(folder, cluster)
    kernels = [kernels_of(trace) for trace in folder.traces]
    same_gpu = folder.text("gpu") == settings.gpu.name and not settings.other_gpus
    recorded = {key: row for one in kernels for key, row in one.timings.items()} if same_gpu else {}
    timer = TracedTimer(model_timer(settings), recorded)
    numbers = {name: number for number, name in enumerate(sorted(folder.groups))}
    ranks = [
        SyntheticRank(
            rank,
            TracedProgram(
                *(rank, steps, folder.groups, _works(trace, steps, known, timer)),
                numbers=numbers,
                is_folded=folder.fold is not None,
            ).play(),
        )
        for rank, trace, steps, known in zip(
            folder.traced, folder.traces, folder.steps, kernels, strict=True
        )
    ]

    def play(simulation: Simulation, write: Callable[[str, bytes], None]) -> None:
        drive(simulation, ranks, dict.fromkeys(folder.traced, 0), write)

    def refusal(error: Exception) -> UsageError:
        return UsageError(f"{folder.path} cannot be simulated: {error}")

    start = _describe(folder, settings)
    return simulate_into(output, start, settings, timer, watch=watch, play=play, refusal=refusal)


def _works(
    trace: Trace, steps: Sequence[Step], kernels: Kernels, timer: TracedTimer
) -> dict[int, Any]:
    """By node, the signature of each kernel."""
    works: dict[int, Any] = {}
    for step in steps:
        if step.is_host or step.is_communication or {"copy", "fill_bytes"} & set(step.attributes):
            continue
        number = step.attributes.get("signature")
        if number is None:
            duration_ns = step.attributes.get("duration_ns", 1000 * step.node.duration_micros)
            works[step.id] = timer.fixed(step.node.name, max(int(str(duration_ns)), 0))
            continue
        signature = kernels.signatures.get(number) if type(number) is int else None
        if signature is None:
            raise UsageError(
                f"{trace.path} is damaged: node {step.id} has the signature "
                f"{number!r}, which is not in its metadata."
            )
        works[step.id] = signature
    return works


def _settings(folder: TraceFolder, cluster: Cluster) -> Settings:
    """The cluster with the ranks of the trace, on nodes as they were, if it says so."""
    nodes, per_node = folder.whole_number("nodes"), folder.whole_number("gpus_per_node")
    if nodes is None or per_node is None or nodes * per_node < folder.ranks:
        layout = place(cluster, ranks=folder.ranks)
    else:
        layout = place(cluster, nodes=nodes, gpus_per_node=per_node)
    gpu, others = load_gpus(cluster, layout.nodes)
    _check_gpu(folder, [gpu, *others.values()])
    environment = folder.text("nccl_environment") or "{}"
    try:
        variables = parse(environment)
        mapping(text)(variables)
    except Fault as fault:
        first = folder.traces[0].path
        raise UsageError(f"{first} is damaged: nccl_environment: {fault}") from fault
    return Settings(
        ranks=folder.ranks,
        nodes=layout.nodes,
        gpus_per_node=layout.gpus_per_node,
        cluster=cluster,
        gpu=gpu,
        nccl_environment=variables,
        nccl_version=folder.whole_number("nccl_version") or NEWEST,
        other_gpus=others,
        fold=folder.fold,
    )


def _check_gpu(folder: TraceFolder, gpus: list[GpuProfile]) -> None:
    """Libraries choose their kernels by architecture and multiprocessors. Raises: UsageError."""
    look = folder.text("gpu_architecture")
    for gpu in gpus:
        if look and look != gpu.architecture:
            raise UsageError(
                f"{folder.path} was recorded on {folder.text('gpu')} ({look}), and its kernels "
                f"were chosen for that; {gpu.name} ({gpu.architecture}) would run others: run "
                "the program itself on that cluster."
            )


def _describe(folder: TraceFolder, settings: Settings) -> dict[str, Any]:
    """start.json, see docs/data-file.md."""
    return {
        "schema": SCHEMA,
        "command": [str(folder.path)],
        "environment": dict(settings.nccl_environment),
        "ranks": settings.ranks,
        "nodes": settings.nodes,
        "gpus_per_node": settings.gpus_per_node,
        "cluster": settings.cluster.to_dict(),
        "cluster_name": settings.cluster.name,
        "host_time": OF_TRACES,
        "isolation": {"tier": "none", "reason": "no program runs"},
        "notes": _NOTES,
        "versions": {"phantora": __version__},
        "seed": 0,
        **({} if folder.fold is None else {"fold": folder.fold.to_dict()}),
    }
