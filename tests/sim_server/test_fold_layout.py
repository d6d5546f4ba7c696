"""The mesh of a program, from the groups of its first rank."""

from __future__ import annotations

import pytest

from sim_server.fold.layout import NoMeshError, mesh_of


def named(ranks: int, groups: list[list[int]], *senders: list[int]) -> list[tuple[str, int, bool]]:
    """Name, size and whether it is folded, outermost first."""
    return [(one.name, one.size, one.folded) for one in mesh_of(ranks, groups, senders)]


def test_without_groups_all_ranks_are_one_dimension() -> None:
    """Also with that of all ranks alone."""
    assert named(8, []) == [("by1", 8, True)]
    assert named(8, [list(range(8))]) == [("by1", 8, True)]


def test_groups_cut_the_ranks_into_dimensions() -> None:
    """Tensor parallel 4, shards 8 and replicas 2 of them; and a group of two dimensions."""
    groups = [[0, 1, 2, 3], list(range(0, 32, 4)), [0, 32], list(range(32)), list(range(64))]
    assert named(64, groups) == [("by32", 2, True), ("by4", 8, True), ("by1", 4, True)]


def test_ranks_that_send_to_each_other_are_stages() -> None:
    """Also where the first sends to the last."""
    groups = [[0, 8, 16, 24], [0, 2, 4, 6], [0, 1]]
    stages = [("pp8", 4, False), ("by2", 4, True), ("by1", 2, True)]
    assert named(32, groups, [0, 8]) == stages
    assert named(32, groups, [0, 24]) == stages


def test_a_group_within_a_pipeline_cuts_nothing() -> None:
    """As that of the first and last stage, which share an embedding."""
    assert named(8, [[0, 2, 4, 6], [0, 6], [0, 1]], [0, 2]) == [("pp2", 4, False), ("by1", 2, True)]


@pytest.mark.parametrize("groups", [[[0, 5]], [[0, 2, 3]], [[0, 1, 2], [0, 1]]])
def test_groups_of_no_mesh_are_named(groups: list[list[int]]) -> None:
    """The first few ranks of one."""
    with pytest.raises(NoMeshError, match="a group of ranks 0, "):
        mesh_of(8, groups, [])
