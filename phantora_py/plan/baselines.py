"""Placements by rules of thumb, which the search is measured against: whole tables on ranks.

Sources: the sharders of owensgroup/ml_perf_model@5b2522a and daochenzha/dreamshard (costs), the
planner of TorchRec at a48cef79 (bandwidths and penalties of its estimator).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log10

import numpy as np

from phantora_py.plan.model import MEMORY, PlanModel
from phantora_py.plan.options import Option
from phantora_py.plan.tables import COMPUTE_KERNELS, Table

Choice = tuple[int, ...]
_SAMPLES = 65_536


def _size(table: Table) -> float:
    return float(table.rows * table.dim)


def _lookup(table: Table) -> float:
    return table.dim * table.lookups_per_sample


def _normalised_lookup(table: Table) -> float:
    """Lookups of different rows only."""
    looked_up = _SAMPLES * table.lookups_per_sample
    return _lookup(table) * table.lookups.distinct(looked_up) / looked_up


def _size_lookup(table: Table) -> float:
    return _lookup(table) * log10(max(10, table.rows))


def _torchrec(table: Table) -> float:
    """Seconds of a sample, forward and backward: TorchRec's estimate of a table-wise shard within
    a node, HBM at 897 GB/s and NVLink at 600 GB/s, twice for the backward pass.
    """
    penalty = 1.75 if table.dim < 64 else 1.15 if table.dim < 128 else 1.0
    row_bytes = table.dim * table.element_bytes
    read = table.lookups_per_sample * (8 + row_bytes * penalty) + row_bytes
    sent = row_bytes / 600e9
    return 3 * read / 897e9 + 2 * sent + table.lookups_per_sample * 8 / 600e9


COSTS: dict[str, Callable[[Table], float]] = {
    "size": _size,
    "lookup": _lookup,
    "normalised lookup": _normalised_lookup,
    "size x lookup": _size_lookup,
    "torchrec's rule": _torchrec,
}


def baselines(model: PlanModel, seed: int = 0) -> dict[str, Choice]:
    """By name, those that there are: a table whose constraints forbid a whole one takes its first
    option, and a rank without room is passed over.
    """
    count = len(model.tables)
    random = np.random.default_rng(seed)
    found = {
        "naive": _placed(model, [t % model.ranks for t in range(count)]),
        "naive chunks": _placed(model, [t * model.ranks // count for t in range(count)]),
        "random": _placed(model, random.integers(model.ranks, size=count).tolist()),
    }
    for name, cost in COSTS.items():
        found[name] = _balanced(model, [cost(table) for table in model.tables])
    return {name: choice for name, choice in found.items() if choice is not None}


def _placed(model: PlanModel, ranks: list[int]) -> Choice | None:
    """Each table on its rank, or on the next one that has room."""
    used = np.zeros(model.ranks)
    choice = []
    for table, rank in enumerate(ranks):
        wanted = [(rank + step) % model.ranks for step in range(model.ranks)]
        option = _first_with_room(model, table, wanted, used)
        if option is None:
            return None
        choice.append(option)
        used += model.ranked[table][option][:, MEMORY]
    return tuple(choice)


def _balanced(model: PlanModel, costs: list[float]) -> Choice | None:
    """The dearest table first, on the rank with the least so far."""
    used, loads = np.zeros(model.ranks), np.zeros(model.ranks)
    choice = [0] * len(costs)
    for table in sorted(range(len(costs)), key=lambda table: -costs[table]):
        option = _first_with_room(model, table, np.argsort(loads, kind="stable").tolist(), used)
        if option is None:
            return None
        choice[table] = option
        used += model.ranked[table][option][:, MEMORY]
        on = list(model.options[table][option].ranks)
        loads[on] += costs[table] / len(on)
    return tuple(choice)


def _first_with_room(
    model: PlanModel,
    table: int,
    ranks: list[int],
    used: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> int | None:
    options = model.options[table]
    whole = [
        options.index(one)
        for kernel in COMPUTE_KERNELS
        for rank in ranks
        if (one := Option("table_wise", (rank,), compute_kernel=kernel)) in options
    ]
    for option in whole or range(len(options)):
        if (used + model.ranked[table][option][:, MEMORY]).max() <= model.limit_bytes:
            return option
    return None
