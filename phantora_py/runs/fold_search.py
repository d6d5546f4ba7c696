"""`--fold auto`: which ranks do the same, found out.

One rank runs first, as if all others did as it does. The groups that it makes are the program's
mesh; ranks that it sends to are its pipeline. Then the program starts again, folded along all other
dimensions, with a witness in each. Where a witness does something else, all ranks of its dimension
run, and the program starts once more.
"""

from __future__ import annotations

import json
import re
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from phantora_py.agent.parts import Outcome
from phantora_py.data import RunData
from phantora_py.launch.options import RunOptions
from sim_server.errors import UsageError
from sim_server.fold import Dimension
from sim_server.fold.layout import NoMeshError, mesh_of
from sim_server.records import CELL_BYTES, RecordKind, payload_cells

AUTO = "auto"
# More ranks than these are not run because one of them differs (assumed).
_MOST_UNFOLDED = 16
_CELL = struct.Struct("<BBHIQII5Q")
# Source: sim_server/fold/witnesses.py, sim_server/fold/communicators.py.
_APART = re.compile(r"rank (\d+) (?:cannot stand for|sends to|receives from) rank (\d+)")

Execute = Callable[[RunOptions], Outcome]
"""Runs once."""


def find_mesh(options: RunOptions, execute: Execute) -> tuple[Dimension, ...]:
    """From a run of rank 0 alone. `execute`: shows nothing.

    Raises: UsageError if the program has no mesh; what the run raises.
    """
    with tempfile.TemporaryDirectory(prefix="phantora-fold-") as folder:
        path = Path(folder) / "first.phr"
        alone = replace(
            options,
            fold="1",
            fold_searches=True,
            witnesses=0,
            output=path,
            until_steady=True,
            shown_ranks=frozenset(),
            quiet=True,
            live=False,
            log_dir=None,
            # One rank has one host.
            hosts=None,
            hosts_file=None,
            engine="ssh",
            listen=None,
        )
        outcome = execute(alone)
        data = RunData(path)
        ranks = data.run["ranks"]
        groups, senders = _groups(b"".join(data.records(0)))
    if outcome.exit_code and not groups:
        raise UsageError(
            "--fold auto ran rank 0 to see which groups the program makes, and it made none: "
            f"{outcome.message}"
        )
    try:
        return mesh_of(ranks, groups, senders)
    except NoMeshError as error:
        raise UsageError(f"--fold auto: {error}. Give the layout with --mesh and --fold.") from None


def _groups(cells: bytes) -> tuple[list[list[int]], list[list[int]]]:
    """The groups that a rank is in, and the pairs in which it sends."""
    groups: list[list[int]] = []
    sending: list[list[int]] = []
    for kind, payload in _records(cells):
        if kind == RecordKind.STATISTICS:
            statistics = json.loads(payload)
            if statistics["kind"] == "group":
                told = statistics["ranks"]
                (groups if statistics["meeting"] else sending).append(told)
    return groups, sending


def _records(cells: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and payload of each."""
    position = 0
    while position < len(cells):
        kind, *_, size_bytes, _, _, _, _ = _CELL.unpack_from(cells, position)
        position += CELL_BYTES
        payload = b""
        if RecordKind(kind).has_payload:
            payload = cells[position : position + size_bytes]
            position += payload_cells(size_bytes) * CELL_BYTES
        yield kind, payload


def folded(options: RunOptions, mesh: tuple[Dimension, ...]) -> RunOptions:
    """The options of a run that is folded so; one in which all run if nothing is folded."""
    names = [one.name for one in mesh if one.folded and one.size > 1]
    if not names:
        return replace(options, fold=None, mesh=None, witnesses=None)
    sizes = ",".join(f"{one.name}={one.size}" for one in mesh)
    witnesses = options.witnesses
    if witnesses is None:
        witnesses = max(2, len(names))
    return replace(options, fold=",".join(names), mesh=sizes, witnesses=witnesses)


def unfolded_more(mesh: tuple[Dimension, ...], message: str) -> tuple[Dimension, ...] | None:
    """Without the dimension along which two ranks differ or send, as a run's last message says;
    None if it says no such thing, or if that dimension is long.
    """
    found = _APART.search(message)
    if found is None:
        return None
    apart = abs(int(found[2]) - int(found[1]))
    stride = 1
    for place, one in reversed(list(enumerate(mesh))):
        if stride <= apart < stride * one.size:
            if not one.folded or one.size > _MOST_UNFOLDED:
                return None
            return (*mesh[:place], replace(one, folded=False), *mesh[place + 1 :])
        stride *= one.size
    return None
