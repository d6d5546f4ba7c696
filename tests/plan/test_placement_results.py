"""What the results of a placement send, by type, on two nodes of two ranks."""

from __future__ import annotations

import pytest
from placement_tasks import curves

from phantora_py.plan.curves import Curves, measure
from phantora_py.plan.model import RECEIVED, RESULTS, SCATTERED, SENT, Machine, PlanModel
from phantora_py.plan.options import option
from phantora_py.plan.tables import SHARDING_TYPES, read_table
from sim_server.cluster import Layout, load_cluster
from sim_server.gpu import load_gpu

_LAYOUT = Layout(2, 2)
_BATCH = 100
# Results of a table for the samples of one rank: 64 floats each.
_PART = _BATCH * 64 * 4


def _model(kind: str, shared: Curves) -> PlanModel:
    only = {"sharding_types": [kind]}
    spec = {"name": "t", "rows": 1000, "dim": 64, "pooling": 3, "constraints": only}
    machine = Machine(_LAYOUT, load_gpu("a100"), shared, 1e15)
    return PlanModel([read_table(spec, "t")], _BATCH, machine)


@pytest.mark.parametrize(
    ("kind", "ranks", "scattered", "sent", "received"),
    [
        ("table_wise", (0,), (0, 0, 0, 0), (3, 0, 0, 0), (0, 1, 1, 1)),
        ("column_wise", (1, 2), (0, 0, 0, 0), (0, 1.5, 1.5, 0), (1, 0.5, 0.5, 1)),
        ("table_column_wise", (2, 3), (0, 0, 0, 0), (0, 0, 1.5, 1.5), (1, 1, 0.5, 0.5)),
        ("row_wise", (0, 1, 2, 3), (4, 4, 4, 4), (0, 0, 0, 0), (0, 0, 0, 0)),
        ("table_row_wise", (0, 1), (4, 4, 0, 0), (1, 1, 0, 0), (0, 0, 1, 1)),
        ("grid_shard", (0, 1, 2, 3), (2, 2, 2, 2), (0.5,) * 4, (0.5,) * 4),
        ("data_parallel", (0, 1, 2, 3), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)),
    ],
)
def test_results_of_each_type(
    kind: str,
    ranks: tuple[int, ...],
    scattered: tuple[float, ...],
    sent: tuple[float, ...],
    received: tuple[float, ...],
) -> None:
    """Sums go to the ranks that share rows, each a part of the samples, and from there to the
    samples' ranks; all in multiples of the results of one rank's samples.
    """
    model = _model(kind, curves(_LAYOUT))
    ranked = model.ranked[0][model.options[0].index(option(kind, ranks, 2))]
    for what, expected in ((SCATTERED, scattered), (SENT, sent), (RECEIVED, received)):
        found = ranked[:, RESULTS + what :: 3].sum(axis=-1)
        assert found.tolist() == pytest.approx([one * _PART for one in expected])


def test_collectives_within_nodes_are_shorter() -> None:
    """On a real topology sums within nodes take less than those over all ranks, and exchanges of
    all local ranks at once no less than that of one.
    """
    cluster, layout = load_cluster("a100"), Layout(2, 4)
    whole, nodes, everyone = measure(cluster, layout).levels
    assert (whole.split, nodes.split, everyone.split) == (1, 4, 8)
    size = 2.0**26
    assert nodes.reduce_scatter.time_ns(size) < everyone.reduce_scatter.time_ns(size)
    alone = measure(cluster, Layout(2, 1)).levels[0]
    assert nodes.all_to_all.time_ns(size) >= alone.all_to_all.time_ns(size)
    for level in (whole, nodes):
        assert level.all_to_all.time_ns(size) > 0
    assert whole.reduce_scatter.time_ns(size) == everyone.all_to_all.time_ns(size) == 0


def test_every_type_has_options() -> None:
    """On two nodes of two, each of TorchRec's types places a table, with its own shards."""
    found = {kind: _model(kind, curves(_LAYOUT)).options[0] for kind in SHARDING_TYPES}
    counts = {kind: len(options) for kind, options in found.items()}
    assert counts == {
        **{"table_wise": 4, "row_wise": 1, "column_wise": 4, "data_parallel": 1},
        **{"table_row_wise": 2, "table_column_wise": 2, "grid_shard": 1},
    }
    # Columns on the two ranks of a node are neighbours, too.
    assert set(found["table_column_wise"]) < set(found["column_wise"])
