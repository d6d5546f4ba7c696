"""What there is to say about a placement: by phase, by rank, by table; as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from phantora_py.plan.model import (
    BACKWARD,
    FORWARD,
    LOOKUPS,
    MEMORY,
    PHASES,
    RECEIVED,
    RESULTS,
    SENT,
    PlanModel,
)
from phantora_py.plan.parts import Choice
from sim_server.kernels import Interval

_EXCHANGES = ("input", "output", "gradient", "dense")


def summarise(
    model: PlanModel, choices: Sequence[Choice], known: Mapping[str, Choice]
) -> dict[str, Any]:
    """Of the best placement in full, of the others and of the `known` ones their times.

    Units: ns and bytes in an iteration; `imbalance` is the slowest rank over the mean.
    """
    best = choices[0]
    ranked = model.sums(best)
    phases = dict(zip(PHASES, model.phases_ns(ranked).tolist(), strict=True))
    time_ns = sum(phases.values())
    low, high = _interval(model, best)
    return {
        "time_ns": time_ns,
        "interval_ns": [time_ns * low, time_ns * high],
        "tier": _tier(model, best),
        "phases_ns": phases,
        "communication_share": sum(phases[name] for name in _EXCHANGES) / time_ns,
        "imbalance": {
            "forward": _imbalance(ranked[:, FORWARD]),
            "backward": _imbalance(ranked[:, BACKWARD]),
            "lookups": _imbalance(ranked[:, LOOKUPS]),
        },
        "memory_limit_bytes": model.limit_bytes,
        "ranks": [_rank(model, best, ranked, rank) for rank in range(model.ranks)],
        "tables": [_table(model, number, option) for number, option in enumerate(best)],
        "baselines_ns": {name: model.cost_ns(choice) for name, choice in known.items()},
        "candidates_ns": [model.cost_ns(choice) for choice in choices],
    }


def _imbalance(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    mean = float(values.mean())
    return float(values.max()) / mean if mean else 1.0


def _interval(model: PlanModel, choice: Choice) -> tuple[float, float]:
    """The widest of the kernels': communication is surer than lookups."""
    intervals = [_kernel_interval(model, number, option) for number, option in enumerate(choice)]
    return min(one.low for one in intervals), max(one.high for one in intervals)


def _kernel_interval(model: PlanModel, number: int, option: int) -> Interval:
    shard = model.shards(number, model.options[number][option])[0]
    timing = model.lookup_model.timing([shard.forward, shard.backward], "lookup")
    assert timing.interval is not None
    return timing.interval


def _tier(model: PlanModel, choice: Choice) -> str:
    shards = (model.shards(n, model.options[n][option])[0] for n, option in enumerate(choice))
    sound = all(shard.forward.tier.value == "modelled" for shard in shards)
    return "modelled forward, assumed backward" if sound else "assumed"


def _rank(
    model: PlanModel,
    choice: Choice,
    ranked: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    rank: int,
) -> dict[str, Any]:
    # Those that are on every rank in whole are no part of a rank's load.
    here = [
        model.tables[number].name
        for number, option in enumerate(choice)
        if rank in model.options[number][option].ranks and not model.options[number][option].copied
    ]
    hosts = [
        shard.host.host_bytes
        for number, option in enumerate(choice)
        for shard in model.shards(number, model.options[number][option])
        if shard.rank == rank and shard.host
    ]
    return {
        "rank": rank,
        "tables": here,
        "lookups": float(ranked[rank, LOOKUPS]),
        "forward_ns": float(ranked[rank, FORWARD]),
        "backward_ns": float(ranked[rank, BACKWARD]),
        "sent_bytes": float(ranked[rank, RESULTS + SENT :: 3].sum()),
        "received_bytes": float(ranked[rank, RESULTS + RECEIVED :: 3].sum()),
        "memory_bytes": float(ranked[rank, MEMORY]),
        "host_memory_bytes": float(sum(hosts)),
    }


def _table(model: PlanModel, number: int, option: int) -> dict[str, Any]:
    table, placed = model.tables[number], model.options[number][option]
    shards = model.shards(number, placed)
    first = shards[0]
    host = first.host
    return {
        "table": table.name,
        "sharding_type": placed.kind,
        "compute_kernel": placed.compute_kernel,
        "ranks": list(placed.ranks),
        "lookups": sum(shard.lookups for shard in shards),
        "hit_rate": first.forward.hit_rate,
        "forward_bytes": sum(shard.forward.memory_bytes for shard in shards),
        "backward_bytes": sum(shard.backward.memory_bytes for shard in shards),
        "forward_ns": first.forward.duration_ns,
        "backward_ns": first.backward.duration_ns,
        "tier": first.forward.tier.value,
        "cache_hit_rate": host.hit_rate if host else None,
        "link_bytes": host.link_bytes * len(shards) if host else 0.0,
        "host_memory_bytes": host.host_bytes * len(shards) if host else 0.0,
    }
