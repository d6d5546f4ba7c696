"""Which ranks ran for which others, and how far that was checked (docs/folding.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from rich.markup import escape

from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted
from phantora_py.text.units import percent_text
from sim_server.deadlock import ranges_text
from sim_server.fold import Fold

# Copies of values of a rank that stands for others move up to this size, integers of any.
_MOST_BYTES = 64 * 1024
_INTEGERS = range(6)  # of ncclDataType_t
_MOST_SITES = 3
_OTHER_HOST = 0.05
"""Host times that differ by less are not worth a line (assumed)."""


class Dimension(TypedDict):
    """Of the mesh, outermost first."""

    name: str
    size: int
    folded: bool


class Witness(TypedDict):
    """A rank that ran beside the one that stands for it."""

    rank: int
    representative: int
    steps: int
    """Records after the first optimizer step that were equal."""
    difference: str
    """What differed after the last optimizer step; empty: nothing."""
    host_share: float | None
    """Its host time for these records, of its representative's; None if that had none, or the file
    is of an earlier version.
    """


class Use(TypedDict):
    """How often, by Python line."""

    site: str
    count: int


class Folding(TypedDict):
    """Of a folded run."""

    mesh: list[Dimension]
    processes: int
    """Ranks that ran, witnesses among them."""
    classes: int
    ranks_per_class: list[int]
    """Each number that there is, the largest first."""
    witnesses: list[Witness]
    stand_ins: list[Use]
    """Small collectives in which values of a rank stood for those of others."""
    partial_checkpoints: list[Use]
    """Checkpoints that have the shards of ranks that ran, and lack those of others."""
    images: int
    """Operations that absent groups carried out too."""
    spread_ns: int
    """How far one of theirs ended from the one that stands for it, at most."""
    spread_share: float
    """The same, of its duration."""


def make(found: Findings) -> Folding | None:
    """The entry of the summary; None: all ranks ran."""
    data = found.data
    fold = data.told.fold
    if fold is None:
        return None
    told = data.folding or {"witnesses": [], "images": {}}
    images = told["images"]
    return {
        "mesh": [{"name": one.name, "size": one.size, "folded": one.folded} for one in fold.mesh],
        "processes": len(fold.live),
        "classes": len(fold.representatives),
        "ranks_per_class": sorted(set(fold.class_sizes.values()), reverse=True),
        "witnesses": list(map(_witness, told["witnesses"])),
        "stand_ins": _stand_ins(data, fold),
        "partial_checkpoints": data.folding.get("partial_checkpoints", []),
        "images": images.get("operations", 0),
        "spread_ns": images.get("spread_ns", 0),
        "spread_share": images.get("spread_share", 0.0),
    }


def _witness(compared: Mapping[str, Any]) -> Witness:
    of_ns = compared.get("representative_host_ns")
    return {
        "rank": compared["rank"],
        "representative": compared["representative"],
        "steps": compared["steps"],
        "difference": compared["difference"],
        "host_share": compared["host_ns"] / of_ns if of_ns else None,
    }


def _stand_ins(data: RunData, fold: Fold) -> list[Use]:
    by_gloo = data.folding.get("gloo", [])
    counts = Counter({one["site"]: one["count"] for one in by_gloo})
    some_absent: dict[int, bool] = {}
    for one in data.operations:
        is_small = one["bytes"] <= _MOST_BYTES or one.get("dtype") in _INTEGERS
        if not is_small or one["kind"] in {"send", "broadcast"}:
            continue
        communicator = one["comm"]
        if communicator not in some_absent:
            some_absent[communicator] = not all(map(fold.is_live, one["members"]))
        counts[one["site"]] += some_absent[communicator]
    return [{"site": site, "count": count} for site, count in counts.most_common() if count]


def processes(folding: Folding | None) -> int | None:
    """As which ranks ran; None: each as one."""
    return None if folding is None else folding["processes"]


def lines(folding: Folding | None) -> list[str]:
    """On a terminal."""
    if folding is None:
        return []
    sizes = folding["ranks_per_class"]
    most = f"up to {sizes[0]:,}" if len(sizes) > 1 else f"{sizes[0]:,}"
    classes = f"{counted(folding['classes'], 'class')} of {most} ranks"
    said = [f"  folding    {classes}{_witnessed(folding['witnesses'])}"]
    said += [
        f"    [yellow]after the last optimizer step {escape(one['difference'])}[/]"
        for one in folding["witnesses"]
        if one["difference"]
    ]
    said += _other_hosts(folding["witnesses"])
    if folding["spread_ns"]:
        said.append(
            f"    groups of absent ranks ended up to {folding['spread_share']:.1%} "
            "before or after the one that stands for them"
        )
    said += _used(
        folding["stand_ins"],
        "small collective",
        "took values of ranks that ran for those of others",
    )
    return said + _used(
        folding["partial_checkpoints"],
        "checkpoint",
        "saved without the shards of ranks that did not run",
    )


def _witnessed(witnesses: Sequence[Witness]) -> str:
    if not witnesses:
        return "; [yellow]no witness ran[/]"
    ranks = ranges_text(one["rank"] for one in witnesses)
    steps = min(one["steps"] for one in witnesses)
    if not steps:
        return f"; [yellow]nothing of witness {ranks} could be compared[/]"
    noun = "witness" if len(witnesses) == 1 else "witnesses"
    return f"; {noun} {ranks} did the same, {steps:,} records each"


def _other_hosts(witnesses: Sequence[Witness]) -> list[str]:
    return [
        f"    [yellow]witness {one['rank']} took {percent_text(one['host_share'])} of the host "
        f"time of rank {one['representative']}[/], which counts for its whole class; see --apart"
        for one in witnesses
        if one["host_share"] is not None and abs(one["host_share"] - 1) > _OTHER_HOST
    ]


def _used(uses: Sequence[Use], noun: str, what: str) -> list[str]:
    if not uses:
        return []
    said = [f"    {counted(sum(one['count'] for one in uses), noun)} {what}:"]
    said += [f"      {one['count']:,} at {escape(one['site'])}" for one in uses[:_MOST_SITES]]
    return said
