"""What arrays of a data file may say: ranges, and references to other members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.data.operations import ranks_of
from phantora_py.data.rows import HELD, NUMBERED_PHASES
from phantora_py.data.schema import MOST_RANKS
from sim_server.files.schema import MOST_BYTES, MOST_NS, Fault
from sim_server.log.history import (
    COMMUNICATION_SPAN,
    COPY_SPAN,
    FILL_SPAN,
    HOST_WAIT_SPAN,
    KERNEL_SPAN,
)
from sim_server.log.scopes import PHASE_BITS
from sim_server.records import CopyKind, WaitKind


def check_spans(
    spans: npt.NDArray[np.void], ranks: int, timings: int, operations: Sequence[Mapping[str, Any]]
) -> None:
    """Ranges and references. Raises: Fault."""
    if not len(spans):
        return
    kinds = spans["kind"]
    limits = np.zeros(256, np.int64)
    limits[KERNEL_SPAN] = timings
    limits[[COPY_SPAN, FILL_SPAN, HOST_WAIT_SPAN]] = 1 << 32
    limits[COMMUNICATION_SPAN] = len(operations)
    wrong = {
        "is of a rank that there is not": spans["rank"] >= ranks,
        "is of no kind": ~np.isin(
            kinds, (KERNEL_SPAN, COPY_SPAN, FILL_SPAN, COMMUNICATION_SPAN, HOST_WAIT_SPAN)
        ),
        "refers to nothing": spans["id"] >= limits[kinds],
        "is of no kind of copy": (kinds == COPY_SPAN) & ~np.isin(spans["id"], list(CopyKind)),
        "is of no kind of wait": (kinds == HOST_WAIT_SPAN) & ~np.isin(spans["id"], list(WaitKind)),
        "ends before it starts": spans["end_ns"] < spans["start_ns"],
        "starts before it was issued": spans["start_ns"] < spans["issue_ns"],
        "was issued before the run": spans["issue_ns"] < 0,
        "ends after all time": spans["end_ns"] > MOST_NS,
    }
    for what, rows_of in wrong.items():
        if rows_of.any():
            raise Fault(f"span {int(np.argmax(rows_of))} {what}")
    _check_parts(spans[kinds == COMMUNICATION_SPAN], ranks, operations)


def _check_parts(
    parts: npt.NDArray[np.void], ranks: int, operations: Sequence[Mapping[str, Any]]
) -> None:
    """Ranks take part in operations that they are members of."""
    members = [len(one["members"]) for one in operations]
    of = np.repeat(np.arange(len(operations)), members) * ranks
    known = of + np.fromiter(
        (rank for one in operations for rank in ranks_of(one)), np.int64, sum(members)
    )
    wrong = ~np.isin(parts["id"].astype(np.int64) * ranks + parts["rank"], known)
    if wrong.any():
        one = parts[wrong][0]
        raise Fault(f"rank {one['rank']} has a part of operation {one['id']}, and is no member")


def check_scopes(scopes: npt.NDArray[np.void], ranks: int) -> None:
    """Likewise. Raises: Fault."""
    phases = scopes["scope"] & ((1 << PHASE_BITS) - 1)
    wrong = {
        "is of a rank that there is not": scopes["rank"] >= ranks,
        "is of no phase": phases >= len(NUMBERED_PHASES),
        "begins before the run": scopes["issue_ns"] < 0,
        "begins after all time": scopes["issue_ns"] > MOST_NS,
    }
    _refuse(wrong)


def check_blocks(blocks: npt.NDArray[np.void], ranks: int) -> None:
    """Likewise. Raises: Fault."""
    lowest = (1 << PHASE_BITS) - 1
    wrong = {
        "is of a rank that there is not": blocks["rank"] >= ranks,
        "is of a device that there is not": blocks["device"] > MOST_RANKS,
        "has no size": (blocks["size_bytes"] <= 0) | (blocks["size_bytes"] > MOST_BYTES),
        "has no address": blocks["address"] > MOST_BYTES,
        "was taken in no phase": (blocks["scope"] & lowest) >= len(NUMBERED_PHASES),
        "was given back in no phase": (blocks["end_scope"] < -1)
        | ((blocks["end_scope"] != -1) & ((blocks["end_scope"] & lowest) >= len(NUMBERED_PHASES))),
        "is of no kind": blocks["kind"] >= len(HELD),
        "was taken before the run": blocks["begin_ns"] < 0,
        "was taken after all time": blocks["begin_ns"] > MOST_NS,
    }
    _refuse(wrong)


def check_link_use(uses: npt.NDArray[np.void], loads: int) -> None:
    """Likewise. Raises: Fault."""
    if not len(uses):
        return
    wrong = {
        "refers to no load": uses["load"] >= loads,
        "ends before it begins": uses["end_ns"] < uses["begin_ns"],
        "begins before the run": uses["begin_ns"] < 0,
        "ends after all time": uses["end_ns"] > MOST_NS,
    }
    _refuse(wrong)


def _refuse(wrong: Mapping[str, npt.NDArray[np.bool_]]) -> None:
    """By what is wrong, with which rows it is. Raises: Fault."""
    for what, rows_of in wrong.items():
        if rows_of.any():
            raise Fault(f"row {int(np.argmax(rows_of))} {what}")
