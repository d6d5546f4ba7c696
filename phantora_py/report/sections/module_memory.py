"""What was allocated at the peak: by module and kind, and as a flame graph."""

from __future__ import annotations

from typing import Any, TypedDict

from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.module_memory import KINDS, HeldMemory, held_memory
from phantora_py.report.page.flame import boxes
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.sections.modules import alike_name, path_order
from phantora_py.text.units import percent_text, size_text

# Rows on a terminal.
_MOST = 8


class HeldByModule(TypedDict):
    """Of one kind, without what modules in it hold."""

    path: str
    """As `GPT.blocks.0.attention`; of temporary memory of an optimizer its class; empty: of none.
    """
    kind: str
    """`parameters`, `gradients`, `optimizer states`, `activations` (taken in a forward pass and
    kept longer), `temporary` (taken in a backward pass or by an optimizer, or given back in the
    forward pass that took it), `buffers` or `other`.
    """
    bytes: int


class ModuleMemory(TypedDict):
    """What PyTorch had allocated of the fullest device when that was most (docs/report.md)."""

    rank: int
    device: int
    """The GPU on the rank's node."""
    allocated_bytes: int
    held: list[HeldByModule]
    """Most first."""


def make(found: Findings) -> ModuleMemory | None:
    """None where that is not known."""
    memory = held_memory(found.data)
    if memory is None:
        return None
    sums = sorted(memory.sums().items(), key=lambda one: (-one[1], one[0]))
    return {
        "rank": memory.rank,
        "device": memory.device,
        "allocated_bytes": memory.size_bytes,
        "held": [{"path": path, "kind": kind, "bytes": size} for (kind, path), size in sums],
    }


def lines(made: ModuleMemory | None) -> list[str]:
    """On a terminal."""
    if made is None:
        return []
    rows, kinds = table(made)
    width = max(len(row["name"]) for row in rows[:_MOST])
    said = [
        f"  memory by module, {size_text(made['allocated_bytes'])} allocated at the peak of rank "
        f"{made['rank']}",
        f"    {'':{width}}   all together      {'   '.join(f'{kind:>16}' for kind in kinds)}",
    ]
    for row in rows[:_MOST]:
        share = percent_text(row["bytes"] / made["allocated_bytes"])
        sizes = (size_text(row["kinds"][kind]) if row["kinds"][kind] else "-" for kind in kinds)
        shown = "   ".join(f"{size:>16}" for size in sizes)
        total = f"{size_text(row['bytes']):>9} {share:>6}"
        said.append(f"    {escape(row['name']):{width}}   {total}   {shown}".rstrip())
    if len(rows) > _MOST:
        left = sum(row["bytes"] for row in rows[_MOST:])
        share = percent_text(left / made["allocated_bytes"])
        said.append(f"    and {len(rows) - _MOST} more, {size_text(left)}, {share}")
    return said


def table(made: ModuleMemory) -> tuple[list[dict[str, Any]], list[str]]:
    """Equal modules of a list as one row, most first, and the kinds that there are."""
    rows: dict[str, dict[str, Any]] = {}
    for one in made["held"]:
        name = alike_name(one["path"])
        row = rows.setdefault(name, {"name": name, "bytes": 0, "kinds": dict.fromkeys(KINDS, 0)})
        row["bytes"] += one["bytes"]
        row["kinds"][one["kind"]] += one["bytes"]
    ordered = sorted(rows.values(), key=lambda row: (-row["bytes"], row["name"]))
    return ordered, [kind for kind in KINDS if any(row["kinds"][kind] for row in ordered)]


def _views(found: PageFindings) -> dict[str, Any]:
    memory = held_memory(found.data)
    made = make(found)
    if memory is None or made is None:
        return {}
    rows, kinds = table(made)
    return {
        "held_rows": rows,
        "held_kinds": kinds,
        "held_levels": _levels(memory),
        "held_classes": {kind: kind.replace(" ", "-") for kind in KINDS},
    }


def _levels(memory: HeldMemory) -> list[list[Any]]:
    sums = sorted(
        memory.sums().items(), key=lambda one: (KINDS.index(one[0][0]), path_order(one[0][1]))
    )
    sizes = {(kind, *filter(None, path.split("."))): float(size) for (kind, path), size in sums}
    return [list(level) for level in boxes(sizes)]


PAGE = PagePart(
    "module_memory",
    "Memory by module",
    _views,
    is_shown=lambda found: len(found.data.peak_blocks) > 0,
)
