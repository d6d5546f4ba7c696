"""Writes a trace: one file of all ranks, or a directory with a file for each."""

from __future__ import annotations

import gzip
import io
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from phantora_py.data import RunData
from phantora_py.report.iterations import find_iterations
from phantora_py.report.trace.chrome import write_events
from phantora_py.report.trace.events import Trace
from phantora_py.report.trace.perfetto import PerfettoWriter, require_perfetto
from phantora_py.report.window import Window, whole_run
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output, require_output_directory, writing

_OPTION = "--trace"
_PERFETTO_SUFFIXES = (".pftrace", ".pftrace.gz")
_SUFFIXES = (".json", ".json.gz", *_PERFETTO_SUFFIXES)
# Events are alike: the fast levels come close to the slow ones (assumed).
_COMPRESSION_LEVEL = 2
_BUFFER_BYTES = 1 << 16


def write_trace(
    data: RunData, path: Path, ranks: frozenset[int] | None, iterations: int | None
) -> list[Path]:
    """Write the trace of these ranks (None: all) and so many last iterations (None: the whole
    run). Returns the files.

    Raises: UsageError for ranks or iterations that there are not, if `path` cannot be written, and
    if Perfetto's package is missing.
    """
    is_one_file = path.name.endswith(_SUFFIXES)
    if is_one_file:
        require_output(path, _OPTION, [data.path])
    else:
        require_output_directory(path, _OPTION)
    in_perfettos_format = path.name.endswith(_PERFETTO_SUFFIXES)
    if in_perfettos_format:
        require_perfetto()
    chosen = _chosen(data, ranks)
    trace = Trace(data, _window(data, iterations))
    if is_one_file:
        by_rank = (trace.rank_items(rank, in_perfettos_format) for rank in sorted(chosen))
        items = itertools.chain(trace.run_items(), itertools.chain.from_iterable(by_rank))
        if in_perfettos_format:
            with _bytes(path) as binary:
                PerfettoWriter(binary, data).write(items)
        else:
            with _text(path) as text:
                write_events(text, data, None, itertools.chain(items, trace.arrows(chosen)))
        return [path]
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{_OPTION} {path} cannot be written: {error.strerror}") from error
    digits = len(str(data.ranks - 1))
    files = {rank: path / f"rank-{rank:0{digits}}.json.gz" for rank in sorted(chosen)}
    for rank, file in files.items():
        with _text(file) as text:
            write_events(text, data, rank, trace.rank_items(rank, launches=True))
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


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """A file to write text to."""
    with _bytes(path) as file, io.TextIOWrapper(file, "utf-8") as text:
        yield text


@contextmanager
def _bytes(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; the same items make the same bytes."""
    with writing(path, _OPTION) as file:
        if not path.name.endswith(".gz"):
            yield file
            return
        # Without the name and the time that gzip would keep.
        with (
            gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, file, mtime=0) as packed,
            io.BufferedWriter(packed, _BUFFER_BYTES) as buffered,
        ):
            yield buffered
