"""What a faster part of the cluster is worth, if that was asked for (`report --sensitivity`).

The simulations are `phantora_py.advice.sensitivity`'s.
"""

from __future__ import annotations

from typing import Any, TypedDict

from phantora_py.report.findings import Findings
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.text.units import duration_text

# Less is within what a simulation rounds (assumed).
_LEAST = 0.005
# What is at least half as much as the best is named beside it.
_BESIDE = 0.5

_WHAT = {
    "gemm": "matrix products",
    "attention": "attention kernels",
    "memory": "memory bandwidth of the GPUs",
    "nvlink": "bandwidth between GPUs of a node",
    "nic": "bandwidth between nodes",
    "latency": "latency of links and collectives",
    "host": "the program between its calls",
}
_ADVICE = {
    "gemm": "buy GPUs with faster tensor cores, or compute products in a smaller type",
    "attention": "take a faster attention kernel, or shorter sequences",
    "memory": "buy GPUs with more memory bandwidth, or fuse kernels (torch.compile, fused "
    "optimizers)",
    "nvlink": "buy faster links within a node, or send less there (a smaller tensor-parallel size)",
    "nic": "buy faster NICs, or send less between nodes (another layout, fewer gathers)",
    "latency": "make fewer and larger collectives (larger buckets)",
    "host": "buy a faster processor, or launch less (torch.compile, CUDA graphs, larger "
    "micro-batches)",
}


class Lever(TypedDict):
    """A part of the cluster that is faster."""

    name: str
    """`gemm`, `attention`, `memory`, `nvlink`, `nic`, `latency` or `host`."""
    iteration_ns: int
    """The median iteration then."""
    shorter: float
    """By which share of the iteration it is shorter; below 0: longer."""


class Sensitivity(TypedDict):
    """The run simulated again with one part at a time made faster."""

    faster: float
    """How many times as fast the part is: its bandwidth times this, or its time by this."""
    iteration_ns: int
    """The median iteration of a simulation in which no part is faster."""
    levers: list[Lever]
    """What is worth most first."""


def make(found: Findings) -> Sensitivity | None:
    """None: it was not asked for."""
    return found.asked.sensitivity


def lines(made: Sensitivity | None) -> list[str]:
    """On a terminal."""
    if made is None:
        return []
    said = [f"What {made['faster'] - 1:.0%} more speed is worth"]
    width = max(len(_WHAT[one["name"]]) for one in made["levers"])
    said += [
        f"  {_WHAT[one['name']]:<{width}}   iteration {duration_text(one['iteration_ns'])}   "
        f"{change_text(one['shorter'])}"
        for one in made["levers"]
    ]
    return [*said, f"  {advice(made)}"]


def change_text(shorter: float) -> str:
    """Of a lever."""
    if abs(shorter) < 5e-5:
        return "no change"
    return f"{100 * abs(shorter):.2f} % {'shorter' if shorter > 0 else 'longer'}"


def advice(made: Sensitivity) -> str:
    """What to buy or to tune, in a sentence."""
    best, *others = made["levers"]
    if best["shorter"] < _LEAST:
        return (
            "None of these shortens the iteration by half a percent: it waits for something else, "
            "such as sleeps, data or other processes."
        )
    beside = [
        one["name"] for one in others if one["shorter"] >= max(_LEAST, _BESIDE * best["shorter"])
    ]
    then = "".join(f"; almost as much: {_ADVICE[name]}" for name in beside[:1])
    return f"Most is gained from {_WHAT[best['name']]}: {_ADVICE[best['name']]}{then}."


def _views(found: PageFindings) -> dict[str, Any]:
    made = make(found)
    if made is None:
        return {"sensitivity_advice": "", "sensitivity_rows": []}
    most = max(0.0, *(one["shorter"] for one in made["levers"]))
    return {
        "sensitivity_advice": advice(made),
        "sensitivity_rows": [
            {
                "what": _WHAT[one["name"]],
                "iteration_ns": one["iteration_ns"],
                "change": change_text(one["shorter"]),
                "share_of_most": max(0.0, one["shorter"]) / most if most else 0.0,
            }
            for one in made["levers"]
        ],
    }


PAGE = PagePart(
    "sensitivity",
    "What is worth buying",
    _views,
    is_shown=lambda found: found.asked.sensitivity is not None,
)
