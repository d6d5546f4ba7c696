"""Host tensors that were not filled, and what the program has seen of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypedDict

from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted
from phantora_py.text.units import size_text

_MOST_SITES = 5


class SkippedFill(TypedDict):
    """Of one Python line."""

    what: str
    site: str
    operations: int
    bytes: int


class UsedTensors(TypedDict):
    """Of one Python line."""

    site: str
    """The line that was to fill them."""
    tensors: int
    bytes: int


class HostTensors(TypedDict):
    """What was left out (docs/decisions/host-memory.md). Lists have most bytes first."""

    mode: str
    operations: int
    """Of all ranks."""
    bytes: int
    """Of all ranks."""
    most_of_a_rank_bytes: int
    sites: list[SkippedFill]
    used_bytes: int
    """What was used after all, as zeros."""
    used_sites: list[UsedTensors]


def make(found: Findings) -> HostTensors | None:
    """None: the file is older than that."""
    data = found.data
    if "host_tensors" not in data.run:
        return None
    skipped, used = data.host_tensors["skipped"], data.host_tensors["used"]
    by_rank: Counter[int] = Counter()
    for entry in skipped:
        by_rank[entry["rank"]] += entry["bytes"]
    return {
        "mode": data.run["host_tensors"],
        "operations": sum(entry["operations"] for entry in skipped),
        "bytes": by_rank.total(),
        "most_of_a_rank_bytes": max(by_rank.values(), default=0),
        "sites": _skipped(skipped),
        "used_bytes": sum(entry["bytes"] for entry in used),
        "used_sites": _used(used),
    }


def _skipped(entries: Iterable[dict[str, Any]]) -> list[SkippedFill]:
    """Entries of all ranks added up, most bytes first."""
    totals: dict[tuple[str, str], SkippedFill] = {}
    for entry in entries:
        what, site = entry["what"], entry["site"]
        nothing: SkippedFill = {"what": what, "site": site, "operations": 0, "bytes": 0}
        total = totals.setdefault((what, site), nothing)
        total["operations"] += entry["operations"]
        total["bytes"] += entry["bytes"]
    return sorted(totals.values(), key=lambda total: (-total["bytes"], total["site"]))


def _used(entries: Iterable[dict[str, Any]]) -> list[UsedTensors]:
    """Likewise."""
    totals: dict[str, UsedTensors] = {}
    for entry in entries:
        site = entry["site"]
        total = totals.setdefault(site, {"site": site, "tensors": 0, "bytes": 0})
        total["tensors"] += entry["tensors"]
        total["bytes"] += entry["bytes"]
    return sorted(totals.values(), key=lambda total: (-total["bytes"], total["site"]))


def lines(left: HostTensors | None) -> list[str]:
    """On a terminal."""
    if left is None or not left["operations"]:
        return []
    most = left["sites"][0]
    said = [
        f"  host       {size_text(left['most_of_a_rank_bytes'])} of tensors per rank not filled "
        f"({counted(left['operations'], 'operation')}; most {most['what']}, "
        f"at {escape(most['site'])})"
    ]
    if left["used_bytes"]:
        said.append(
            f"    of all ranks {size_text(left['used_bytes'])} was used after all, as zeros "
            "(--host-tensors real fills them):"
        )
        said += [
            f"    {size_text(used['bytes'])} that {escape(used['site'])} was to fill"
            for used in left["used_sites"][:_MOST_SITES]
        ]
    return said
