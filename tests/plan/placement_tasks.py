"""Random tasks of placing tables, and every placement of a small one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from phantora_py.plan.curves import Curve, Curves
from phantora_py.plan.model import Machine, PlanModel
from phantora_py.plan.tables import Table, read_table
from sim_server.gpu import load_gpu

_BATCHES = (512, 1024, 2048, 4096)
_DIMS = (32, 64, 128, 256)
_CHUNK = 4096


def curves(gigabytes_per_s: float = 150.0, latency_us: float = 20.0) -> Curves:
    """Made up: a latency and a bandwidth."""
    sizes = np.array([4096.0, 2.0**32])
    curve = Curve(sizes, latency_us * 1e3 + sizes / gigabytes_per_s)
    return Curves(curve, curve, curve, curve)


def random_tables(
    count: int, random: np.random.Generator, kinds: Sequence[str] | None = None
) -> list[Table]:
    """Tables as public sets have them: rows over five decades, lookups mostly few, dims random."""
    return [read_table(_random_spec(n, random, kinds), "tasks") for n in range(count)]


def _random_spec(
    number: int, random: np.random.Generator, kinds: Sequence[str] | None
) -> dict[str, Any]:
    rows = int(10 ** random.uniform(3, 7.3))
    spec = {
        "name": f"t{number}",
        "rows": rows,
        "dim": int(random.choice(_DIMS)),
        "pooling": float(np.clip(random.lognormal(1.5, 1.3), 1, 200)),
        "lookups": {"kind": "zipf", "exponent": float(random.uniform(0.3, 1.3))},
    }
    if kinds is not None:
        spec["constraints"] = {"sharding_types": list(kinds)}
    return spec


def task(
    tables: Sequence[Table],
    ranks: int,
    random: np.random.Generator,
    room: float = 1.4,
    shared: Curves | None = None,
) -> PlanModel:
    """A model with `room` times the memory that the tables take when they are spread evenly."""
    batch = int(random.choice(_BATCHES))
    gpu = load_gpu("a100")
    free = PlanModel(tables, batch, Machine(ranks, gpu, shared or curves(), 1e15))
    whole = [ranked[:, 6].sum(axis=-1).min() for ranked in free.ranked]
    limit = max(room * sum(whole) / ranks, 1.05 * max(whole))
    return PlanModel(tables, batch, Machine(ranks, gpu, shared or curves(), limit))


def least_of_all_ns(model: PlanModel) -> float:
    """The score of the best placement: all are tried."""
    best = np.inf
    counts = [range(len(options)) for options in model.options]
    choices = itertools.product(*counts)
    while chunk := list(itertools.islice(choices, _CHUNK)):
        places = np.array(chunk)
        pairs = list(enumerate(places.T))
        ranked = sum(model.ranked[t][options] for t, options in pairs)
        shared = sum(model.shared[t][options] for t, options in pairs)
        best = min(best, float(model.score_ns(np.asarray(ranked), np.asarray(shared)).min()))
    return best
