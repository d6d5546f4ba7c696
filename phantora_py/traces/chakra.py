"""A recorded run as Chakra traces: a file a rank (docs/traces.md)."""

from __future__ import annotations

import json
from pathlib import Path

from phantora_py import __version__
from phantora_py.data import RunData
from phantora_py.traces.groups import Groups, joining_of
from phantora_py.traces.operations import ExchangeSizes
from phantora_py.traces.rank_nodes import RankNodes
from phantora_py.traces.recorded_steps import recorded_steps
from sim_server.chakra.files import Value, write_trace
from sim_server.chakra.operations import COMM_SIZE_OF
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output_directory, writing
from sim_server.files.schema import Fault

OPTION = "--chakra"


def write_chakra(data: RunData, directory: Path) -> list[Path]:
    """Writes the traces of all ranks into a directory, which is made. Returns the files.

    Raises: UsageError if it cannot be written, or the run is none that can be exported.
    """
    _require_whole(data)
    require_output_directory(directory, OPTION)
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{OPTION} {directory} cannot be written: {error.strerror}") from error
    groups = Groups(data)
    try:
        joinings, sizes = {}, ExchangeSizes(groups.members)
        for rank in range(data.ranks):
            steps = list(recorded_steps(data, rank))
            joinings[rank] = [one for step in steps if (one := joining_of(step))]
            sizes.add(rank, steps)
        made = groups.made_by(joinings)
        return [
            _write(
                data, directory, groups, RankNodes(data, rank, made[rank], groups.members, sizes)
            )
            for rank in range(data.ranks)
        ]
    except Fault as fault:
        raise UsageError(f"{data.path} is damaged: {fault}") from fault


def file_name(rank: int) -> str:
    """As Chakra's tools expect it: they are given `chakra`."""
    return f"chakra.{rank}.et"


def _write(data: RunData, directory: Path, groups: Groups, writer: RankNodes) -> Path:
    rank = writer.rank
    try:
        nodes = list(writer.nodes(list(recorded_steps(data, rank))))
    except Fault as fault:
        raise UsageError(f"{data.path} is damaged: rank {rank}: {fault}") from fault
    own = {
        f"process_group/{number}": members
        for number, members in groups.members.items()
        if rank in members
    }
    path = directory / file_name(rank)
    with writing(path, OPTION) as file:
        write_trace(file, {**_told(data, rank), **own, **writer.metadata}, nodes)
    return path


def _told(data: RunData, rank: int) -> dict[str, Value]:
    """What a simulation needs to know of the run."""
    settings = data.told_settings
    return {
        "producer": f"phantora {__version__}",
        COMM_SIZE_OF: "input",
        "rank": rank,
        "ranks": settings.ranks,
        "nodes": settings.nodes,
        "gpus_per_node": settings.gpus_per_node,
        "cluster": settings.cluster.name,
        "gpu": settings.gpu_of(rank).name,
        "gpu_architecture": settings.gpu_of(rank).architecture,
        "nccl_version": settings.nccl_version,
        "nccl_environment": json.dumps(dict(settings.nccl_environment), sort_keys=True),
        "digest": str(data.run["digest"]),
    }


def _require_whole(data: RunData) -> None:
    """Raises: UsageError for a run whose ranks did not all come to their ends."""
    why = None
    if data.broke_off:
        why = "is not complete: phantora was killed before the run ended"
    elif data.is_cut:
        why = "ended before its ranks did (--until-steady)"
    elif data.run["exit_code"] != 0:
        why = f"is of a run that failed (exit code {data.run['exit_code']})"
    elif data.told.fold is not None:
        why = "is a folded run, in which most ranks did not run"
    if why is not None:
        raise UsageError(
            f"{data.path} {why}: its trace would lack nodes that others depend on. Run the "
            "program again, to its end and with all ranks."
        )
