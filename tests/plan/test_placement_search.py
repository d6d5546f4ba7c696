"""The search against all placements of small tasks, and against rules of thumb on large ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from placement_tasks import least_of_all_ns, random_tables, task

from phantora_py.plan.baselines import baselines
from phantora_py.plan.curves import measure
from phantora_py.plan.model import MEMORY, Machine, PlanModel
from phantora_py.plan.parts import families, parts
from phantora_py.plan.search import search
from phantora_py.plan.symmetry import Symmetry
from phantora_py.plan.tables import SHARDING_TYPES, read_table
from sim_server.cluster import Layout, load_cluster
from sim_server.gpu import load_gpu

# Tables, nodes and ranks of each, and sharding types, whose placements are few enough to try all.
_SMALL = (
    (8, (1, 2), ("table_wise", "row_wise")),
    (6, (1, 3), ("table_wise", "row_wise", "data_parallel")),
    (5, (1, 4), ("table_wise", "row_wise", "column_wise", "data_parallel")),
    (7, (1, 3), ("table_wise",)),
    (6, (1, 4), ("table_wise",)),
    (6, (2, 2), ("table_wise", "row_wise", "table_row_wise")),
    (5, (2, 2), ("table_wise", "column_wise", "table_row_wise", "grid_shard")),
    (5, (2, 2), ("table_row_wise", "table_column_wise", "grid_shard", "data_parallel")),
)


@pytest.mark.parametrize("shape", _SMALL)
def test_small_tasks_are_solved(shape: tuple[int, tuple[int, int], tuple[str, ...]]) -> None:
    """Of 40 random tasks of each shape, the search finds the best of all placements in all."""
    count, nodes, kinds = shape
    layout = Layout(*nodes)
    for seed in range(40):
        random = np.random.default_rng([seed, count, layout.ranks])
        model = task(random_tables(count, random, kinds), layout, random)
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
    model = task(random_tables(14, random), Layout(1, 4), random, room=1.15)
    known = baselines(model)
    found = search(model, method, tuple(known.values()))
    scores = [model.cost_ns(choice) for choice in found]
    assert scores == sorted(scores)
    assert len(set(found)) == len(found)
    assert all(model.sums(choice)[:, MEMORY].max() <= model.limit_bytes for choice in found)
    assert scores[0] <= min(model.cost_ns(choice) for choice in known.values())


def test_better_than_rules_of_thumb() -> None:
    """With 36 tables and more the search beats the best rule where whole tables are uneven, also
    where it may only place whole tables.
    """
    better = 0
    for seed in range(3):
        random = np.random.default_rng([9, seed])
        model = task(random_tables(36 + 10 * seed, random, ("table_wise",)), Layout(1, 4), random)
        known = baselines(model)
        rule = min(map(model.cost_ns, known.values()))
        found = model.cost_ns(search(model, "beam", tuple(known.values()))[0])
        assert found <= rule
        better += found < rule * 0.999
    assert better >= 2


def test_equal_seeds_give_equal_placements() -> None:
    """Annealing is a function of its seed."""
    random = np.random.default_rng(2)
    model = task(random_tables(10, random), Layout(1, 2), random)
    assert search(model, "anneal", seed=1) == search(model, "anneal", seed=1)


def test_ranks_are_alike_where_options_are() -> None:
    """Sums of two ranks may change places if every option then is one of the table's, too: not
    where columns are at neighbours only, and within nodes alone where nodes share rows.
    """
    sums = np.array([[5.0], [5.0], [3.0], [3.0]])
    others = sums[[0, 2, 1, 3]]
    for nodes, kind, alike in (
        ((1, 4), "table_wise", True),
        ((1, 4), "column_wise", False),
        ((2, 2), "row_wise", True),
        ((2, 2), "table_row_wise", False),
    ):
        random = np.random.default_rng(3)
        tables = [table for table in random_tables(9, random, (kind,)) if table.dim > 64]
        model = task(tables, Layout(*nodes), random)
        symmetry = Symmetry(model.options, model.ranks)
        assert (symmetry.key(sums) == symmetry.key(others)) == alike, kind
        assert symmetry.key(sums) == symmetry.key(sums[::-1])


def test_collectives_that_nobody_uses_take_nothing() -> None:
    """On two nodes of eight the search finds columns on ranks, where greedily a first table had
    begun to share rows within nodes.
    """
    tables = [
        read_table({"name": f"t{n}", "dim": 128, "pooling": 3.0, "rows": 10 ** (n % 3 + 5)}, "t")
        for n in range(8)
    ]
    cluster = load_cluster("h100")
    layout = Layout(2, 8)
    machine = Machine(layout, load_gpu("h100"), measure(cluster, layout), 60 * 2.0**30)
    model = PlanModel(tables, 1024, machine)
    found = model.cost_ns(search(model, "beam")[0])
    for family in (("table_wise", "column_wise"), ("table_row_wise", "grid_shard")):
        pure = [
            read_table({**table.spec, "constraints": {"sharding_types": list(family)}}, "t")
            for table in tables
        ]
        alone = PlanModel(pure, 1024, machine)
        assert found <= alone.cost_ns(search(alone, "beam")[0]) * 1.0001


def test_more_types_are_never_worse() -> None:
    """On two nodes: whole tables, those that know no nodes, and all. The search among more types
    begins, among other places, where the one among fewer ends.
    """
    allowed = (("table_wise",), ("table_wise", "row_wise"), SHARDING_TYPES[:4], SHARDING_TYPES)
    for count, seed in ((10, 2), (12, 4)):
        costs = []
        for kinds in allowed:
            random = np.random.default_rng([11, seed])
            model = task(random_tables(count, random, kinds), Layout(2, 2), random)
            found = search(model, "anneal", tuple(baselines(model).values()))
            costs.append(model.cost_ns(found[0]))
        assert costs == sorted(costs, reverse=True), (count, seed)


def test_parts_have_each_other() -> None:
    """Each part has the options of the one before and more, the last has all; a choice comes back
    from a part as it went in, and goes into none that lacks one of its options.
    """
    random = np.random.default_rng(4)
    model = task(random_tables(10, random), Layout(2, 2), random)
    found = parts(model)
    kept = [[set(options) for options in part.kept] for part in found]
    for fewer, more in itertools.pairwise(kept):
        assert all(one <= other for one, other in zip(fewer, more, strict=True))
        assert fewer != more
    assert [len(of) for of in kept[-1]] == [len(of) for of in model.options]
    for part in (*found, *families(model)):
        choice = tuple(of[-1] for of in part.kept)
        (inside,) = part.inward([choice])
        assert part.outward([inside]) == [choice]
        assert part.model.cost_ns(inside) == model.cost_ns(choice)
        lacks = (max(kept[-1][0]), *choice[1:])
        assert (part.inward([lacks]) == []) == (lacks[0] not in part.kept[0])
