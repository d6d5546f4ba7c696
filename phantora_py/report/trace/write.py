"""Writes a trace: one file of all ranks, or a directory with a file for each."""

from __future__ import annotations

import gzip
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from phantora_py.data import RunData
from phantora_py.report.iterations import find_iterations
from phantora_py.report.trace.events import Event, Trace
from phantora_py.report.window import Window, whole_run
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output, require_output_directory, writing

_OPTION = "--trace"
_SUFFIXES = (".json", ".json.gz")
# Events are alike: the fast levels come close to the slow ones (assumed).
_COMPRESSION_LEVEL = 2


def write_trace(
    data: RunData, path: Path, ranks: frozenset[int] | None, iterations: int | None
) -> list[Path]:
    """Write the trace of these ranks (None: all) and so many last iterations (None: the whole
    run). Returns the files.

    Raises: UsageError for ranks or iterations that there are not, and if `path` cannot be written.
    """
    is_one_file = path.name.endswith(_SUFFIXES)
    if is_one_file:
        require_output(path, _OPTION, [data.path])
    else:
        require_output_directory(path, _OPTION)
    chosen = _chosen(data, ranks)
    trace = Trace(data, _window(data, iterations))
    if is_one_file:
        everything = itertools.chain(
            trace.run_events(),
            *(trace.rank_events(rank, launches=False) for rank in sorted(chosen)),
            trace.flow_events(chosen),
        )
        _write(path, _head(data, None), everything)
        return [path]
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{_OPTION} {path} cannot be written: {error.strerror}") from error
    digits = len(str(data.ranks - 1))
    files = {rank: path / f"rank-{rank:0{digits}}.json.gz" for rank in sorted(chosen)}
    for rank, file in files.items():
        _write(file, _head(data, rank), trace.rank_events(rank, launches=True))
    return list(files.values())


def _chosen(data: RunData, ranks: frozenset[int] | None) -> frozenset[int]:
    every = frozenset(range(data.ranks))
    unknown = (ranks or every) - every
    if unknown:
        raise UsageError(
            f"--trace-ranks: there is no rank {min(unknown)}; the run has ranks 0 to "
            f"{data.ranks - 1}."
        )
    told = frozenset(data.told.ranks)
    if absent := (ranks or told) - told:
        rank = min(absent)
        raise UsageError(
            f"--trace-ranks: rank {rank} did not run, or ran as a witness; rank "
            f"{data.told.stand_in(rank)} stands for it, so ask for that."
        )
    return ranks or told


def _window(data: RunData, count: int | None) -> Window:
    if count is None:
        return whole_run(data)
    boundaries_ns = find_iterations(data).boundaries_ns.tolist()
    if not 1 <= count < len(boundaries_ns):
        raise UsageError(
            f"--trace-iterations {count}: the run has {max(len(boundaries_ns) - 1, 0)} whole "
            "iterations after the first."
        )
    return Window(boundaries_ns[-count - 1], boundaries_ns[-1], count)


def _head(data: RunData, rank: int | None) -> dict[str, Any]:
    """What PyTorch's profiler says of a run, and what we do."""
    properties = data.settings["gpu"]["properties"]
    distributed = {"backend": "nccl", "world_size": data.ranks}
    return {
        "schemaVersion": 1,
        "distributedInfo": distributed if rank is None else {**distributed, "rank": rank},
        "deviceProperties": [
            {
                "id": 0,
                "name": data.settings["gpu"].get("name", ""),
                "totalGlobalMem": properties["totalGlobalMem"],
            }
        ],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "phantora": {
            key: data.run.get(key) for key in ("command", "cluster_name", "versions", "digest")
        },
    }


def _write(path: Path, head: dict[str, Any], events: Iterable[Event]) -> None:
    """Line by line: Holistic Trace Analysis looks for the rank in the first lines."""
    encode = json.JSONEncoder().encode
    with _open(path) as file:
        file.write("{\n")
        file.writelines(f"{encode(key)}: {encode(value)},\n" for key, value in head.items())
        file.write('"traceEvents": [\n')
        separator = ""
        for event in events:
            file.write(separator + encode(event))
            separator = ",\n"
        file.write("\n]}\n")


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    """A file to write text to; the same events make the same bytes."""
    with writing(path, _OPTION) as file:
        if not path.name.endswith(".gz"):
            with io.TextIOWrapper(file, "utf-8") as text:
                yield text
            return
        # Without the name and the time that gzip would keep.
        with (
            gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, file, mtime=0) as packed,
            io.TextIOWrapper(packed, "utf-8") as text,
        ):
            yield text
