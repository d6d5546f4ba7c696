"""Which configurations no other one beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Costs = tuple[float, ...]


def costs_of(run: Mapping[str, Any]) -> Costs | None:
    """Time (of a unit of work, if that is known), peak memory and GPUs of a run of a comparison;
    None if it did not finish or has no iterations.
    """
    if run["exit_code"] != 0 or run["iteration"] is None or run["peak_memory_bytes"] is None:
        return None
    time_ns = float(run["iteration"]["median_ns"])
    if run["throughput"]:
        time_ns /= run["throughput"]["per_iteration"]
    return time_ns, float(run["peak_memory_bytes"]), float(run["ranks"])


def front(costs: Sequence[Costs | None]) -> list[bool]:
    """Whether each is not beaten: no other one is as good in everything and better in something."""
    return [
        one is not None and not any(_beats(other, one) for other in costs if other is not None)
        for one in costs
    ]


def _beats(one: Costs, other: Costs) -> bool:
    return one != other and all(mine <= its for mine, its in zip(one, other, strict=True))
