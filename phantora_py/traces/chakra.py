"""A recorded run as Chakra traces: a file a rank, or a class of ranks (docs/traces.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from phantora_py import __version__
from phantora_py.data import RunData
from phantora_py.traces import classes
from phantora_py.traces.groups import Groups, joining_of
from phantora_py.traces.operations import ExchangeSizes
from phantora_py.traces.rank_nodes import RankNodes
from phantora_py.traces.recorded_steps import recorded_steps
from phantora_py.traces.unfolded import Unfolded
from sim_server.chakra.files import Value, write_trace
from sim_server.chakra.operations import COMM_SIZE_OF
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output_directory, writing
from sim_server.files.schema import Fault
from sim_server.fold import Fold

OPTION = "--chakra"


def write_chakra(data: RunData, directory: Path, *, every_rank: bool = False) -> list[Path]:
    """Writes the traces of all ranks into a directory, which is made. Returns the files. Of a
    folded run there is one for each class, and a map (`classes`), unless there is to be one for
    `every_rank`.

    Raises: UsageError if it cannot be written, or the run is none that can be exported.
    """
    _require_whole(data)
    require_output_directory(directory, OPTION)
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{OPTION} {directory} cannot be written: {error.strerror}") from error
    groups = Groups(data)
    fold = data.told.fold
    unfolded = Unfolded(fold, groups.members) if fold is not None and every_rank else None
    try:
        joinings, sizes = {}, ExchangeSizes(groups.members)
        for rank in data.told_settings.live_ranks:
            steps = list(recorded_steps(data, rank))
            joinings[rank] = [one for step in steps if (one := joining_of(step))]
            if rank in data.told.ranks:
                sizes.add(rank, steps)
        made = groups.made_by(joinings)
        written = [
            path
            for rank in data.told.ranks
            for path in _write_class(
                *(data, directory, groups),
                RankNodes(data, rank, made[rank], groups.members, sizes),
                unfolded,
            )
        ]
    except Fault as fault:
        raise UsageError(f"{data.path} is damaged: {fault}") from fault
    if fold is not None and unfolded is None:
        written.append(_write_map(fold, directory, groups))
    return written


def file_name(rank: int) -> str:
    """As Chakra's tools expect it: they are given `chakra`."""
    return f"chakra.{rank}.et"


def _write_class(
    data: RunData,
    directory: Path,
    groups: Groups,
    writer: RankNodes,
    unfolded: Unfolded | None,
) -> Iterator[Path]:
    """Writes what a rank did: for its class, or for each rank of that."""
    rank = writer.rank
    try:
        nodes = list(writer.nodes(list(recorded_steps(data, rank))))
    except Fault as fault:
        raise UsageError(f"{data.path} is damaged: rank {rank}: {fault}") from fault
    of_ranks: Iterable[tuple[int, Mapping[int, Sequence[int]]]]
    if unfolded is None:
        own = {number: ranks for number, ranks in groups.members.items() if rank in ranks}
        of_ranks = [(rank, own)]
    else:
        of_ranks = unfolded.each_rank(nodes, rank)
    for one, own_groups in of_ranks:
        told = _told(data, one, is_class=data.told.fold is not None and unfolded is None)
        told |= {f"process_group/{number}": list(own_groups[number]) for number in own_groups}
        path = directory / file_name(one)
        with writing(path, OPTION) as file:
            write_trace(file, told | writer.metadata, nodes)
        yield path


def _write_map(fold: Fold, directory: Path, groups: Groups) -> Path:
    path = directory / classes.MAP
    with writing(path, OPTION) as file:
        file.write(classes.map_of(fold, groups.members, file_name).encode())
    return path


def _told(data: RunData, rank: int, *, is_class: bool) -> dict[str, Value]:
    """What a simulation needs to know of the run. `is_class`: the file is that of several ranks."""
    fold = data.told.fold if is_class else None
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
        **({} if fold is None else {classes.FOLD: classes.fold_text(fold)}),
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
    if why is not None:
        raise UsageError(
            f"{data.path} {why}: its trace would lack nodes that others depend on. Run the "
            "program again, to its end."
        )
