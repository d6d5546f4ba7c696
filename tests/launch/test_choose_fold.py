"""Which ranks are started, from the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phantora_py.launch.fold import choose_fold
from phantora_py.launch.layout import RunLayout
from phantora_py.launch.options import RunOptions
from sim_server.cluster import Cluster, Layout, load_cluster
from sim_server.errors import UsageError
from sim_server.fold import Fold


def chosen(ranks: int = 16, cluster: Cluster | None = None, **options: Any) -> Fold | None:
    """The fold of a run on nodes of eight."""
    given = RunOptions(command=("true",), **options)
    layout = RunLayout(Layout(-(-ranks // 8), min(ranks, 8)), 8)
    return choose_fold(given, cluster or load_cluster("h100"), layout, None)


def test_all_run_unless_told() -> None:
    """Without the option there is no fold."""
    assert chosen() is None


def test_a_number_of_ranks_runs() -> None:
    """Rank r does as rank r modulo N; the last rank of the first class and one from the middle are
    witnesses."""
    fold = chosen(fold="4")
    assert fold is not None
    assert fold.representatives == (0, 1, 2, 3)
    assert [fold.representative(rank) for rank in (4, 7, 13)] == [0, 3, 1]
    assert fold.witnesses == (8, 12)


def test_dimensions_of_a_mesh_are_folded() -> None:
    """Representatives have coordinate 0 there."""
    fold = chosen(fold="dp", mesh="cp=2,dp=4,tp=2", witnesses=1)
    assert fold is not None
    assert fold.representatives == (0, 1, 8, 9)
    assert fold.witnesses == (6,)
    assert fold.live == (0, 1, 6, 8, 9)
    assert [fold.representative(rank) for rank in (7, 15)] == [1, 9]


def test_each_folded_dimension_has_a_witness() -> None:
    """So that a witness is the first rank of every group that it is in."""
    fold = chosen(fold="replicate,shard", mesh="replicate=4,shard=4")
    assert fold is not None
    assert (fold.representatives, fold.witnesses) == ((0,), (3, 12))


def test_there_are_no_more_witnesses_than_ranks() -> None:
    """As many as are asked for, or as there are."""
    fold = chosen(fold="8", witnesses=5)
    assert fold is not None
    assert fold.witnesses == (8,)
    none = chosen(fold="8", witnesses=0)
    assert none is not None
    assert none.witnesses == ()


def test_a_class_is_on_nodes_of_one_type(tmp_path: Path) -> None:
    """Others take other times."""
    path = tmp_path / "mixed.toml"
    group = "[[node_groups]]\nnodes = 1\n"
    path.write_text(f'base = "h100"\n{group}{group}gpu = "h200"\n')
    mixed = load_cluster(str(path))
    with pytest.raises(UsageError, match="has rank 0 stand for rank 8, whose node is of another"):
        chosen(cluster=mixed, fold="1")
    inside = chosen(cluster=mixed, fold="inner", mesh="outer=2,inner=8", witnesses=0)
    assert inside is not None
    assert inside.live == (0, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mesh": "dp=16"}, "--mesh is about ranks that are not run"),
        ({"witnesses": 1}, "--witness is about ranks that are not run"),
        ({"fold": "3"}, "--fold 3: 16 ranks are no multiple of it"),
        ({"fold": "0"}, "--fold 0: 16 ranks are no multiple of it"),
        ({"fold": "16"}, "leaves no rank out"),
        ({"fold": "dp"}, "names dimensions of a mesh"),
        ({"fold": "tp", "mesh": "dp=16"}, "'tp' is no dimension of --mesh dp=16; it has dp"),
        ({"fold": "dp", "mesh": "dp=4,tp=2"}, "4 x 2 = 8 ranks, and the run has 16"),
        ({"fold": "dp", "mesh": "dp=4,dp=4"}, "two dimensions of the name 'dp'"),
        ({"fold": "dp", "mesh": "dp4"}, "'dp4' is no dimension"),
        ({"fold": "dp", "mesh": "dp=0"}, "'dp=0' is no dimension"),
        ({"fold": "1", "witnesses": -1}, "--witness -1"),
        ({"fold": "1", "expert_load": "zipf:1"}, "--expert-load zipf:1"),
        ({"fold": "1", "host_time": "measured"}, "--host-time measured"),
    ],
)
def test_what_is_no_fold_is_refused(options: dict[str, Any], message: str) -> None:
    """With a sentence that says what to do."""
    with pytest.raises(UsageError) as refused:
        chosen(**options)
    assert message in str(refused.value)


def test_a_witness_of_a_pipeline_runs_with_its_stages() -> None:
    """They send to each other."""
    fold = chosen(fold="dp", mesh="pp=2,dp=4,tp=2", witnesses=1)
    assert fold is not None
    assert fold.witnesses == (6, 14)


def test_ranks_that_differ_have_witnesses_at_their_borders() -> None:
    """The last of each class, and the one before it."""
    fold = chosen(fold="1", apart="0,12-14", witnesses=2)
    assert fold is not None
    assert fold.representatives == (0, 1, 12)
    assert fold.witnesses == (11, 14)


@pytest.mark.parametrize("apart", ["16", "3-1", "tp=0", "dp", "dp=9", "x-y"])
def test_what_is_no_range_of_ranks_is_refused(apart: str) -> None:
    """The message says what one looks like."""
    with pytest.raises(UsageError, match="--apart"):
        chosen(fold="dp", mesh="dp=8,tp=2", apart=apart)
