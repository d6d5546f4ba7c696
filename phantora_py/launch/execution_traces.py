"""Execution traces that ranks write with PyTorch's observer: from the run directory to the user's.

Ranks write to the run directory, which every namespace and container sees.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from phantora_py.launch.options import RunOptions
from phantora_py.rank.execution_traces import FOLDER, file_of
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output_directory
from sim_server.fold import Fold

OPTION = "--execution-trace"
MAP = "ranks.json"
_MEASURED = ("measured",)
_TAIL_BYTES = 64


def check(options: RunOptions, own_ranks: bool) -> None:
    """Raises: UsageError if traces are wanted that cannot be had."""
    directory = options.execution_trace
    if directory is None:
        return
    require_output_directory(directory, OPTION)
    if options.host_time in _MEASURED:
        raise UsageError(
            f"{OPTION} takes time of the processor, which --host-time {options.host_time} would "
            "count as the program's own; use another model of host time."
        )
    if own_ranks:
        raise UsageError(
            f"{OPTION}: a program that starts its own ranks (--gpus) is not traced; start a "
            "process for each rank."
        )


def prepare(run_dir: Path, options: RunOptions) -> None:
    """Ranks that find the folder write traces."""
    if options.execution_trace is not None:
        (run_dir / FOLDER).mkdir()


def collect(
    run_dir: Path, options: RunOptions, ranks: Sequence[int], fold: Fold | None
) -> list[str]:
    """Moves what the ranks wrote to where it is wanted, with a map from ranks to files. Of a folded
    run, whose `ranks` ran, there is a file for each class.

    Returns: a sentence for each rank whose trace is missing or broke off.
    Raises: UsageError if the directory cannot be written.
    """
    directory = options.execution_trace
    if directory is None:
        return []
    count, stand_in = (len(ranks), None) if fold is None else (fold.ranks, fold.representative)
    files = {rank: file_of(rank if stand_in is None else stand_in(rank)) for rank in range(count)}
    faults = []
    try:
        directory.mkdir(exist_ok=True)
        for name in sorted(set(files.values())):
            written = run_dir / FOLDER / name
            if not written.exists():
                faults.append(f"{directory / name} is missing: its rank did not import PyTorch.")
                continue
            shutil.move(written, directory / name)
            if not _is_whole(directory / name):
                faults.append(f"{directory / name} broke off: its rank did not come to its end.")
        text = json.dumps({str(rank): name for rank, name in files.items()}, indent=1)
        (directory / MAP).write_text(text + "\n", encoding="ascii")
    except OSError as error:
        raise UsageError(f"{OPTION} {directory} cannot be written: {error.strerror}") from error
    return faults


def _is_whole(path: Path) -> bool:
    """Whether the observer has ended the file."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
        return b'"finish_ts"' in file.read()
