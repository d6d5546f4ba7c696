"""Device memory: peaks per rank, and what did not fit."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, TypedDict, cast

from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.page.memory_chart import memory_chart
from phantora_py.report.page.overview import memory_rows
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.sections.headline import Run
from phantora_py.text.units import size_text

_MOST_FAILURES = 5
# Whose GPUs are listed one by one; of more ranks the JSON tells (assumed to be enough to look at).
_MOST_RANKS = 4


class OutOfMemory(TypedDict):
    """An allocation that did not fit."""

    rank: int
    device: int | None
    """Of which GPU of the rank's node; null in files of earlier versions."""
    asked_bytes: int
    free_bytes: int
    site: str
    """The Python line that asked."""
    retried: bool
    """It got it after all: PyTorch gave back what it kept for reuse, which takes time, and asked
    again."""


class GpuMemory(TypedDict):
    """What a rank took of one of its GPUs."""

    rank: int
    device: int
    """The GPU on the rank's node."""
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    peak_device_bytes: int


class MemoryKinds(TypedDict):
    """What the fullest rank's device held at its peak (docs/deciding.md)."""

    rank: int
    parameters_bytes: int
    """That optimizers have."""
    gradients_bytes: int
    optimizer_bytes: int
    """States of optimizers."""
    activations_bytes: int
    """All other tensors at the fullest of two moments: a backward pass begins, an optimizer
    steps."""
    temporary_bytes: int
    """By which PyTorch had allocated more at another moment."""
    unused_bytes: int
    """Reserved by PyTorch's allocator and not allocated: fragmentation."""
    nccl_bytes: int
    context_bytes: int
    other_bytes: int
    """Of libraries."""
    at: str
    """`backward` or `step`: which of the two moments was fuller."""


class MemorySummary(TypedDict):
    """Lists have an entry per rank, of the fullest of its GPUs; none if they are not known."""

    capacity_bytes: int
    """Of the rank whose peak is highest."""
    peak_reserved_bytes: list[int]
    """By PyTorch's caching allocator."""
    peak_allocated_bytes: list[int]
    """Likewise."""
    peak_device_bytes: list[int]
    """Also context, NCCL and whatever else took device memory: this must fit."""
    gpus: list[GpuMemory]
    """Of ranks that use several GPUs."""
    fits: bool | None
    """Null if the peaks are not known."""
    out_of_memory: list[OutOfMemory]
    kinds: MemoryKinds | None
    """Null without `--memory-kinds`, and before an optimizer has stepped."""


def make(found: Findings) -> MemorySummary:
    """The entry of the summary."""
    data = found.data
    per_rank = data.memory["per_rank"]
    worst: dict[str, Any] = max(per_rank, key=itemgetter("device_peak_bytes"), default={})
    failures = [
        cast("OutOfMemory", {"rank": rank, "device": None, "retried": False, **oom})
        for rank, memory in enumerate(per_rank)
        for oom in memory["oom"]
    ]
    return {
        # Files of earlier versions have one capacity for all.
        "capacity_bytes": worst.get("capacity_bytes", data.memory["capacity_bytes"]),
        "peak_reserved_bytes": [memory["reserved_peak_bytes"] for memory in per_rank],
        "peak_allocated_bytes": [memory["allocated_peak_bytes"] for memory in per_rank],
        "peak_device_bytes": [memory["device_peak_bytes"] for memory in per_rank],
        "gpus": [
            {
                "rank": rank,
                "device": one["device"],
                "peak_reserved_bytes": one["reserved_peak_bytes"],
                "peak_allocated_bytes": one["allocated_peak_bytes"],
                "peak_device_bytes": one["device_peak_bytes"],
            }
            for rank, memory in enumerate(per_rank)
            for one in memory.get("devices", ())
        ],
        "fits": not failures if per_rank else None,
        "out_of_memory": failures,
        "kinds": _kinds(per_rank.index(worst), worst) if worst else None,
    }


def _kinds(rank: int, memory: dict[str, Any]) -> MemoryKinds | None:
    found = memory.get("kinds")
    if found is None:
        return None
    names = ("parameters_bytes", "gradients_bytes", "optimizer_bytes")
    parameters, gradients, states = (found[name] for name in names)
    allocated, reserved = memory["allocated_peak_bytes"], memory["reserved_peak_bytes"]
    beside = memory["context_bytes"] + memory["nccl_bytes"]
    return {
        "rank": rank,
        "parameters_bytes": parameters,
        "gradients_bytes": gradients,
        "optimizer_bytes": states,
        "activations_bytes": max(0, found["allocated_bytes"] - parameters - gradients - states),
        "temporary_bytes": max(0, allocated - found["allocated_bytes"]),
        "unused_bytes": max(0, reserved - allocated),
        "nccl_bytes": memory["nccl_bytes"],
        "context_bytes": memory["context_bytes"],
        "other_bytes": max(0, memory["device_peak_bytes"] - reserved - beside),
        "at": found["when"],
    }


def kind_sizes(kinds: MemoryKinds) -> list[tuple[str, int]]:
    """By kind, in words; those that there are."""
    sizes = [
        ("parameters", kinds["parameters_bytes"]),
        ("gradients", kinds["gradients_bytes"]),
        ("optimizer states", kinds["optimizer_bytes"]),
        ("activations", kinds["activations_bytes"]),
        ("temporary", kinds["temporary_bytes"]),
        ("fragmentation", kinds["unused_bytes"]),
        ("NCCL", kinds["nccl_bytes"]),
        ("context", kinds["context_bytes"]),
        ("libraries", kinds["other_bytes"]),
    ]
    return [(kind, size) for kind, size in sizes if size]


def lines(memory: MemorySummary, run: Run) -> list[str]:
    """On a terminal."""
    peaks = memory["peak_device_bytes"]
    if not peaks:
        why = "the run broke off" if run["broke_off"] else "execution traces do not tell"
        return [f"  peak memory is not known, because {why}"]
    worst = max(range(len(peaks)), key=peaks.__getitem__)
    capacity = size_text(memory["capacity_bytes"])
    said = [
        f"  peak memory [bold]{size_text(peaks[worst])}[/] of {capacity} "
        f"({_whose(memory, worst)}; PyTorch "
        f"reserved {size_text(memory['peak_reserved_bytes'][worst])}, allocated "
        f"{size_text(memory['peak_allocated_bytes'][worst])})"
    ]
    if memory["kinds"] is not None:
        parts = (f"{kind} {size_text(size)}" for kind, size in kind_sizes(memory["kinds"]))
        said.append(f"    at its peak   {'   '.join(parts)}")
    several = {one["rank"] for one in memory["gpus"]}
    if len(several) <= _MOST_RANKS:
        said += [_gpus_line(memory, rank) for rank in sorted(several)]
    for failure in memory["out_of_memory"][:_MOST_FAILURES]:
        of_gpu = f" of GPU {failure['device']}" if failure["rank"] in several else ""
        end = "got memory by a retry" if failure["retried"] else "ran out of memory"
        said.append(
            f"  [red]rank {failure['rank']} {end}{of_gpu}[/]: "
            f"asked {size_text(failure['asked_bytes'])}, free {size_text(failure['free_bytes'])}, "
            f"at {escape(failure['site'])}"
        )
    return said


def _gpus_line(memory: MemorySummary, rank: int) -> str:
    own = [one for one in memory["gpus"] if one["rank"] == rank]
    sizes = (f"GPU {one['device']} {size_text(one['peak_device_bytes'])}" for one in own)
    return f"    rank {rank}: {', '.join(sizes)}"


def _whose(memory: MemorySummary, rank: int) -> str:
    own = [one for one in memory["gpus"] if one["rank"] == rank]
    if not own:
        return f"rank {rank}"
    fullest = max(own, key=itemgetter("peak_device_bytes"))
    return f"rank {rank}, GPU {fullest['device']}"


def _views(found: PageFindings) -> dict[str, Any]:
    return {
        "memory_rows": memory_rows(found.data),
        **memory_chart(found.data, found.iterations),
    }


PAGE = PagePart("memory", "Memory", _views)
