"""A folder of Chakra traces, one file a rank (or a class of ranks), as programs that ranks play."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phantora_py.traces.classes import fold_of
from phantora_py.traces.kineto import read_profiles
from sim_server.chakra.files import Trace, Value, read_trace
from sim_server.chakra.graph import Step, in_order
from sim_server.chakra.operations import COMM_SIZE_OF
from sim_server.errors import UsageError
from sim_server.files.schema import (
    Check,
    Fault,
    mapping,
    number,
    one_of,
    parse,
    record,
    row,
    text,
    whole,
)
from sim_server.fold import Fold
from sim_server.kernels import Tier
from sim_server.timing_cache.entry import signature_key

_NAME = re.compile(r"(?:^|.*\D)(\d+)\.et(\.gz)?")
_WORLD = ("", "0", "default_pg")
"""Names of the group of all ranks where nothing tells of groups."""
_TIMING: Check = record(
    {"duration_ns": whole(1, 1 << 53), "tier": one_of([tier.value for tier in Tier])},
    {"interval": row(number(1e-9, 1), number(1, 1e9)), "interval_source": text},
)


@dataclass
class TraceFolder:
    """The traces of the ranks that have one, in order: all, or a representative of each class."""

    path: Path
    traces: list[Trace]
    steps: list[list[Step]]
    groups: dict[str, list[int]]
    fold: Fold | None = None

    @property
    def ranks(self) -> int:
        """How many the run had."""
        return len(self.traces) if self.fold is None else self.fold.ranks

    @property
    def traced(self) -> Sequence[int]:
        """The ranks of the traces."""
        return range(len(self.traces)) if self.fold is None else self.fold.representatives

    def stand_in(self, rank: int) -> int:
        """Whose trace tells of a rank."""
        return rank if self.fold is None else self.fold.representative(rank)

    def whole_number(self, name: str) -> int | None:
        """What the first file says of the run; None: nothing."""
        value = self.traces[0].metadata.get(name)
        return value if type(value) is int and value >= 1 else None

    def text(self, name: str) -> str:
        """Likewise."""
        return str(self.traces[0].metadata.get(name, ""))


def files_of_ranks(folder: Path, name: re.Pattern[str]) -> dict[int, Path]:
    """Files by rank, which is the first group of `name`. Raises: UsageError if two are of one."""
    files: dict[int, Path] = {}
    for one in sorted(folder.iterdir()):
        if (found := name.fullmatch(one.name)) is not None:
            rank = int(found[1])
            if rank in files:
                raise UsageError(f"{one} and {files[rank]} are both of rank {rank}.")
            files[rank] = one
    return files


def read_folder(path: Path) -> TraceFolder:
    """Reads all traces of a folder.

    Raises: UsageError if a rank's is missing or damaged, with the name of the file.
    """
    files = files_of_ranks(path, _NAME)
    if not files:
        if profiles := read_profiles(path):
            return _checked(path, profiles)
        raise UsageError(
            f"{path} has neither Chakra traces (files that end with a rank's number and .et, as "
            "chakra.0.et; `phantora report FILE.phr --chakra DIR` writes such) nor traces of "
            "PyTorch's profiler (.json, .json.gz)."
        )
    first = read_trace(files[min(files)])
    fold = fold_of(first)
    expected = range(max(files) + 1) if fold is None else fold.representatives
    if missing := sorted(set(expected) - set(files)):
        raise UsageError(
            f"{path} lacks the trace of rank {missing[0]}; it has rank {max(files)}'s."
        )
    if others := sorted(set(files) - set(expected)):
        raise UsageError(f"{files[others[0]]} is of a rank that its folded run has no trace of.")
    traces = [first, *(read_trace(files[rank]) for rank in sorted(files)[1:])]
    return _checked(path, traces, fold)


def _checked(path: Path, traces: list[Trace], fold: Fold | None = None) -> TraceFolder:
    steps = []
    count = len(traces) if fold is None else fold.ranks
    ranks = range(count) if fold is None else fold.representatives
    for rank, trace in zip(ranks, traces, strict=True):
        told = trace.metadata.get("ranks", count)
        if told != count:
            raise UsageError(f"{trace.path} is of a run of {told} ranks; {path} has {count}.")
        if fold_of(trace) != fold:
            raise UsageError(f"{trace.path} is of a run that was folded in another way.")
        if trace.metadata.get("rank", rank) != rank:
            own = trace.metadata["rank"]
            raise UsageError(f"{trace.path} is the trace of rank {own}, by what it says.")
        if str(trace.metadata.get("producer")).startswith("phantora"):
            _require_sizes_of_input(trace)
        try:
            steps.append(in_order(trace.nodes))
        except Fault as fault:
            raise UsageError(f"{trace.path} is damaged: {fault}") from fault
    return TraceFolder(path, traces, steps, _groups(traces, count), fold)


def _require_sizes_of_input(trace: Trace) -> None:
    """Raises: UsageError for a trace that we wrote when sizes were of the larger buffer."""
    if trace.metadata.get(COMM_SIZE_OF) != "input":
        raise UsageError(
            f"{trace.path} is of an older phantora, which gave all-gathers other sizes: write it "
            "again (`phantora report FILE.phr --chakra DIR`)."
        )


def _groups(traces: Sequence[Trace], count: int) -> dict[str, list[int]]:
    """By name, of `count` ranks. Raises: UsageError if files disagree."""
    groups: dict[str, list[int]] = {}
    for trace in traces:
        for name, value in trace.metadata.items():
            if not name.startswith("process_group/"):
                continue
            ranks = _ranks_of(trace, name, value, count)
            if groups.setdefault(name.partition("/")[2], ranks) != ranks:
                raise UsageError(f"{trace.path}: {name} has other ranks than in other files.")
    for name in _WORLD:
        groups.setdefault(name, list(range(count)))
    return groups


def _ranks_of(trace: Trace, name: str, value: Value, count: int) -> list[int]:
    if not isinstance(value, list) or len(set(value)) < len(value):
        raise UsageError(f"{trace.path} is damaged: {name} is no list of ranks.")
    ranks = [one for one in value if type(one) is int and 0 <= one < count]
    if len(ranks) < len(value) or not ranks:
        raise UsageError(f"{trace.path} is damaged: {name} names ranks that there are not.")
    return ranks


@dataclass
class Kernels:
    """What a trace says of kernels, by the number that its nodes give."""

    signatures: dict[int, Mapping[str, Any]]
    timings: dict[str, Mapping[str, Any]]
    """By `signature_key`."""


def kernels_of(trace: Trace) -> Kernels:
    """Raises: UsageError if that is damaged."""
    found = Kernels({}, {})
    try:
        for name, value in trace.metadata.items():
            kind, _, number_text = name.partition("/")
            if kind not in ("signature", "timing"):
                continue
            told = parse(str(value))
            if kind == "signature":
                mapping(lambda _: None)(told)
                found.signatures[int(number_text)] = told
            else:
                _TIMING(told)
        for number, signature in found.signatures.items():
            told = trace.metadata.get(f"timing/{number}")
            if told is not None:
                found.timings[signature_key(signature)] = json.loads(str(told))
    except (Fault, ValueError) as fault:
        raise UsageError(f"{trace.path} is damaged: what it says of kernels: {fault}") from fault
    return found
