"""The search against all placements of small tasks, and against rules of thumb on large ones."""

from __future__ import annotations

import numpy as np
import pytest
from placement_tasks import least_of_all_ns, random_tables, task

from phantora_py.plan.baselines import baselines
from phantora_py.plan.model import MEMORY
from phantora_py.plan.search import search

# Tables, ranks and sharding types whose placements are few enough to try all of.
_SMALL = (
    (8, 2, ("table_wise", "row_wise")),
    (6, 3, ("table_wise", "row_wise", "data_parallel")),
    (5, 4, ("table_wise", "row_wise", "column_wise", "data_parallel")),
    (7, 3, ("table_wise",)),
    (6, 4, ("table_wise",)),
)


@pytest.mark.parametrize("shape", _SMALL)
def test_small_tasks_are_solved(shape: tuple[int, int, tuple[str, ...]]) -> None:
    """Of 40 random tasks of each shape, the search finds the best of all placements in all."""
    count, ranks, kinds = shape
    for seed in range(40):
        random = np.random.default_rng([seed, count, ranks])
        model = task(random_tables(count, random, kinds), ranks, random)
        truth = least_of_all_ns(model)
        found = search(model, "beam")
        if truth == np.inf:
            assert not found
            continue
        assert model.cost_ns(found[0]) == pytest.approx(truth, rel=1e-9), seed


@pytest.mark.parametrize("method", ["greedy", "beam", "anneal"])
def test_no_placement_runs_out_of_memory(method: str) -> None:
    """Whatever is returned fits, in order, each placement once; the first is no worse than any
    baseline.
    """
    random = np.random.default_rng(5)
    model = task(random_tables(14, random), 4, random, room=1.15)
    known = baselines(model)
    found = search(model, method, tuple(known.values()))
    scores = [model.cost_ns(choice) for choice in found]
    assert scores == sorted(scores)
    assert len(set(found)) == len(found)
    assert all(model.sums(choice)[0][MEMORY].max() <= model.limit_bytes for choice in found)
    assert scores[0] <= min(model.cost_ns(choice) for choice in known.values())


def test_better_than_rules_of_thumb() -> None:
    """With 36 tables and more the search beats the best rule where whole tables are uneven, also
    where it may only place whole tables.
    """
    better = 0
    for seed in range(3):
        random = np.random.default_rng([9, seed])
        model = task(random_tables(36 + 10 * seed, random, ("table_wise",)), 4, random)
        known = baselines(model)
        rule = min(map(model.cost_ns, known.values()))
        found = model.cost_ns(search(model, "beam", tuple(known.values()))[0])
        assert found <= rule
        better += found < rule * 0.999
    assert better >= 2


def test_equal_seeds_give_equal_placements() -> None:
    """Annealing is a function of its seed."""
    random = np.random.default_rng(2)
    model = task(random_tables(10, random), 2, random)
    assert search(model, "anneal", seed=1) == search(model, "anneal", seed=1)
