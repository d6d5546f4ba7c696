"""Random tasks of placing tables, and every placement of a small one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from phantora_py.plan.curves import Curve, Curves, Level
from phantora_py.plan.model import MEMORY, Machine, PlanModel
from phantora_py.plan.tables import Table, read_table
from sim_server.cluster import Layout
from sim_server.gpu import load_gpu

_BATCHES = (512, 1024, 2048, 4096)
_DIMS = (32, 64, 128, 256)
_CHUNK = 4096


def curves(layout: Layout) -> Curves:
    """Made up: a latency and a bandwidth, within a node and beyond."""
    none = Curve(np.empty(0), np.empty(0))
    levels = []
    for split in sorted({1, layout.gpus_per_node, layout.ranks}):
        within = _curve(split <= layout.gpus_per_node) if split > 1 else none
        across = _curve(layout.nodes == 1) if split < layout.ranks else none
        levels.append(Level(split, within, within, across))
    return Curves(_curve(layout.nodes == 1), tuple(levels))


def _curve(near: bool) -> Curve:
    sizes = np.array([4096.0, 2.0**32])
    return Curve(sizes, 20e3 + sizes / (150.0 if near else 30.0))


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
    layout: Layout,
    random: np.random.Generator,
    room: float = 1.4,
    shared: Curves | None = None,
) -> PlanModel:
    """A model with `room` times the memory that the tables take when they are spread evenly."""
    batch = int(random.choice(_BATCHES))
    gpu = load_gpu("a100")
    shared = shared or curves(layout)
    free = PlanModel(tables, batch, Machine(layout, gpu, shared, 1e15))
    whole = [ranked[..., MEMORY].sum(axis=-1).min() for ranked in free.ranked]
    limit = max(room * sum(whole) / layout.ranks, 1.05 * max(whole))
    return PlanModel(tables, batch, Machine(layout, gpu, shared, limit))


def least_of_all_ns(model: PlanModel) -> float:
    """The score of the best placement: all are tried."""
    best = np.inf
    counts = [range(len(options)) for options in model.options]
    choices = itertools.product(*counts)
    while chunk := list(itertools.islice(choices, _CHUNK)):
        pairs = list(enumerate(np.array(chunk).T))
        ranked = sum(model.ranked[t][options] for t, options in pairs)
        best = min(best, float(model.score_ns(np.asarray(ranked)).min()))
    return best
