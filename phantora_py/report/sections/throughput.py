"""What an iteration gets through: samples and tokens a second, and the share of the GPUs' peak."""

from __future__ import annotations

from typing import TypedDict

from rich.markup import escape

from phantora_py.report import throughput
from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted
from phantora_py.report.throughput import Taken
from phantora_py.text.units import amount_text, percent_text
from sim_server.deadlock import ranges_text

_FOUND_BY = {
    "embedding": "looked up in an embedding",
    "graph": "given to a compiled graph",
    "loader": "from a data loader",
    "convolution": "images that are convolved",
    "told": "as told",
}


class Amount(TypedDict):
    """Samples or tokens."""

    per_iteration: float
    per_s: float
    ranks: list[int]
    """That take them; with `is_whole` those of a data-parallel group: others have the same data."""
    is_whole: bool
    """False: the first rank's alone, because no wrapper says which ranks have different data."""
    found_by: str
    """`embedding`, `graph`, `loader`, `convolution` or `told` (docs/decisions/throughput.md)."""


class Utilization(TypedDict):
    """Products of an iteration, of all ranks, and their share of what the GPUs could do in it."""

    executed_flops: float
    """Of the kernels."""
    model_flops: float | None
    """Without those that checkpoints computed again. Null if these cannot be told from others."""
    hfu: float
    """Hardware FLOPs utilization: `executed_flops` by `peak_flops_per_s` and by the time."""
    mfu: float | None
    """Model FLOPs utilization: likewise `model_flops`."""
    type: str
    """Of the operands of most products, as `bf16`."""
    peak_flops_per_s: float
    """For that type, dense, of all GPUs together."""
    gpus: int
    """How many these are."""
    hidden_share: float
    """Of the kernels' time, that of products that are not counted, because their sizes are not
    known."""


class RunThroughput(TypedDict):
    """Of the mean iteration, as sums of all are divided by their number: a median one may be short
    of work.
    """

    samples: Amount | None
    """Null if nobody knows."""
    tokens: Amount | None
    """Likewise, and where samples have none."""
    utilization: Utilization | None
    """Null without products, and for files of earlier versions."""


def make(found: Findings) -> RunThroughput | None:
    """None without an iteration that takes time."""
    data, iterations = found.data, found.iterations
    time_ns = float(iterations.compared_ns.mean()) if iterations.compared else 0.0
    if not time_ns:
        return None
    told = found.told
    return {
        "samples": _amount(
            told.get("samples") or throughput.samples(data, found.window, iterations), time_ns
        ),
        "tokens": _amount(told.get("tokens") or throughput.tokens(data, iterations), time_ns),
        "utilization": _utilization(found, time_ns),
    }


def _amount(taken: Taken | None, time_ns: float) -> Amount | None:
    if taken is None:
        return None
    return {
        "per_iteration": taken.amount,
        "per_s": taken.amount / time_ns * 1e9,
        "ranks": list(taken.ranks),
        "is_whole": taken.is_whole,
        "found_by": taken.source,
    }


def _utilization(found: Findings, time_ns: float) -> Utilization | None:
    products = throughput.products(found.data, found.window, found.iterations)
    if products is None or products.peak_per_s is None:
        return None
    most = products.peak_per_s * time_ns / 1e9
    return {
        "executed_flops": products.executed,
        "model_flops": products.model,
        "hfu": products.executed / most,
        "mfu": None if products.model is None else products.model / most,
        "type": products.type,
        "peak_flops_per_s": products.peak_per_s,
        "gpus": products.gpus,
        "hidden_share": products.hidden_share,
    }


def lines(run: RunThroughput | None, ranks: int) -> list[str]:
    """On a terminal. `ranks`: of the run."""
    if run is None:
        return []
    said = []
    for name in ("tokens", "samples"):
        if (amount := run[name]) is not None:
            said.append(f"  {amount_line(name, amount, ranks)}")
    if (share := run["utilization"]) is not None:
        said.append(f"  {utilization_line(share)}")
    return said


def amount_line(name: str, amount: Amount, ranks: int) -> str:
    """As "11,684 tokens/s   ..."."""
    of_rank = "" if amount["is_whole"] else f" of rank {ranges_text(amount['ranks'])} alone"
    line = f"[bold]{amount_text(amount['per_s'])} {name}/s[/]{of_rank}   "
    line += f"{_count_text(amount['per_iteration'])} an iteration, {_FOUND_BY[amount['found_by']]}"
    if not amount["is_whole"]:
        return f"{line} (which ranks have other data is not known; --per-iteration tells)"
    among = len(amount["ranks"])
    return f"{line}, of {counted(among, 'rank')}" if among < ranks else line


def _count_text(amount: float) -> str:
    return f"{amount:,.0f}" if amount == int(amount) else amount_text(amount)


def utilization_line(share: Utilization) -> str:
    """As "MFU 41.2 %   HFU 54.9 %   of 989 TFLOP/s (dense bf16) a GPU"."""
    at_least = "at least " if share["hidden_share"] else ""
    parts = [] if share["mfu"] is None else [f"[bold]MFU {at_least}{percent_text(share['mfu'])}[/]"]
    parts.append(f"HFU {at_least}{percent_text(share['hfu'])}")
    peak = share["peak_flops_per_s"] / share["gpus"] / 1e12
    parts.append(f"of {amount_text(peak)} TFLOP/s (dense {escape(share['type'])}) a GPU")
    if share["hidden_share"]:
        parts.append(
            f"products of unknown sizes, {percent_text(share['hidden_share'])} of the kernels' "
            "time, not counted"
        )
    return "   ".join(parts)


def tiles(run: RunThroughput | None, ranks: int) -> list[tuple[str, str]]:
    """Figures and what they are, for the page."""
    if run is None:
        return []
    found = []
    for name in ("tokens", "samples"):
        if (amount := run[name]) is not None:
            of_rank = "" if amount["is_whole"] else f", rank {ranges_text(amount['ranks'])} alone"
            found.append((amount_text(amount["per_s"]), f"{name} a second{of_rank}"))
    if (share := run["utilization"]) is not None:
        peak = f"of {amount_text(share['peak_flops_per_s'] / share['gpus'] / 1e12)} TFLOP/s a GPU"
        said = f"{peak}, dense {share['type']}"
        if share["hidden_share"]:
            said += "; products of unknown sizes are not counted"
        if share["mfu"] is not None:
            found.append((percent_text(share["mfu"]), f"MFU, {said}"))
        found.append((percent_text(share["hfu"]), f"HFU, {said}"))
    return found
