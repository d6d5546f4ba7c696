"""Ranks, nodes and GPUs: what the user may say, and what may not be said at once."""

import sys

import pytest

from phantora_py.launch.command import understand
from phantora_py.launch.layout import (
    gpus_for_launcher,
    idle_gpus,
    lay_out,
    unasked_variables,
)
from phantora_py.launch.options import RunOptions
from phantora_py.launchers.torchrun import parse_torchrun
from sim_server.cluster import load_cluster
from sim_server.errors import UsageError


@pytest.mark.parametrize(
    ("options", "torchrun", "expected"),
    [
        ({}, None, (1, 1, 1)),
        ({"ranks": 16}, None, (16, 2, 8)),
        ({"nodes": 2}, None, (16, 2, 8)),
        ({"gpus_per_node": 4}, None, (4, 1, 4)),
        ({"ranks": 8, "gpus_per_node": 4}, None, (8, 2, 4)),
        ({}, ["--nproc-per-node=8"], (8, 1, 8)),
        ({}, ["--nproc-per-node=gpu"], (8, 1, 8)),
        ({"gpus_per_node": 4}, ["--nproc-per-node=auto"], (4, 1, 4)),
        ({"ranks": 64}, ["--nproc-per-node=8"], (64, 8, 8)),
        ({"nodes": 4}, ["--nproc-per-node=2"], (8, 4, 2)),
        ({}, ["--nproc-per-node=8", "--nnodes=3"], (24, 3, 8)),
        ({"ranks": 24, "nodes": 3}, ["--nproc-per-node=8", "--nnodes=3"], (24, 3, 8)),
    ],
)
def test_layout(
    options: dict[str, int], torchrun: list[str] | None, expected: tuple[int, int, int]
) -> None:
    """Whatever is left open follows from the rest."""
    layout = _lay_out(options, torchrun)
    assert (layout.ranks, layout.nodes, layout.ranks_per_node) == expected


def test_ranks_are_placed_in_order() -> None:
    """Rank r sits on node r // ranks per node."""
    layout = _lay_out({"ranks": 12, "gpus_per_node": 4}, None)
    assert [(layout.node(rank), layout.local_rank(rank)) for rank in (0, 3, 4, 11)] == [
        *((0, 0), (0, 3), (1, 0)),
        (2, 3),
    ]
    assert layout.visible_gpus == 4


def test_gpus_without_a_rank_are_told() -> None:
    """A program that counts GPUs finds those, too; one rank alone is usual."""
    (note,) = idle_gpus(_lay_out({"ranks": 2}, None))
    assert note == (
        "2 of the 8 GPUs of a node have a rank; a program that counts GPUs finds 8, and 2 with "
        "--gpus-per-node 2"
    )
    for options in ({}, {"ranks": 16}, {"ranks": 2, "gpus_per_node": 2}):
        assert idle_gpus(_lay_out(options, None)) == []


@pytest.mark.torch
def test_a_rank_that_nobody_asked_for() -> None:
    """The user reads that it is started as by torchrun, unless ranks or workers were asked for."""
    (note,) = unasked_variables(RunOptions(command=()), None)
    assert "RANK, WORLD_SIZE" in note
    assert "--gpus 1" in note
    assert unasked_variables(RunOptions(command=(), ranks=1), None) == []
    command = understand([sys.executable, "-c", "pass"], {}, own_ranks=1)
    assert unasked_variables(RunOptions(command=(), gpus=1), command.launch) == []


@pytest.mark.torch
def test_own_ranks() -> None:
    """--gpus is a node with so many GPUs; the program starts its ranks there."""
    command = understand([sys.executable, "-c", "pass"], {}, own_ranks=4)
    layout = lay_out(load_cluster("h100"), RunOptions(command=(), gpus=4), command.launch)
    assert (layout.ranks, layout.nodes, layout.visible_gpus) == (4, 1, 4)
    assert idle_gpus(layout) == []


@pytest.mark.torch
@pytest.mark.parametrize(("processes", "ranks"), [("gpu", 4), ("2", 2)])
def test_a_launcher_on_so_many_gpus(processes: str, ranks: int) -> None:
    """--gpus N before a launcher, which starts the ranks: nodes have N GPUs. It was refused."""
    words = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", "-m", "this"]
    command = understand([sys.executable, *words], {}, own_ranks=4)
    options = gpus_for_launcher(RunOptions(command=(), gpus=4), command.launch)
    layout = lay_out(load_cluster("h100"), options, command.launch)
    assert (layout.ranks, layout.nodes, layout.visible_gpus) == (ranks, 1, 4)
    with pytest.raises(UsageError, match="give one of them"):
        gpus_for_launcher(RunOptions(command=(), gpus=4, gpus_per_node=4), command.launch)


@pytest.mark.parametrize(
    ("options", "torchrun", "message"),
    [
        ({"nodes": 2}, ["--nnodes=4"], "--nodes 2 contradicts torchrun --nnodes 4"),
        ({"ranks": 8}, ["--nnodes=2", "--nproc-per-node=8"], "2 x 8 = 16 ranks"),
        ({"ranks": 9}, ["--nproc-per-node=8"], "multiple of 8"),
        ({}, ["--nproc-per-node=16"], "has 8 GPUs"),
        ({}, ["--nproc-per-node=cpu"], "takes a number, gpu or auto"),
        ({"gpus_per_node": 16}, None, "do not fit"),
        ({"ranks": 0}, None, "at least 1"),
    ],
)
def test_contradictions_are_explained(
    options: dict[str, int], torchrun: list[str] | None, message: str
) -> None:
    """A layout that cannot be is a usage error that names both sides."""
    with pytest.raises(UsageError, match=message):
        _lay_out(options, torchrun)


def _lay_out(options: dict[str, int], torchrun: list[str] | None):  # type: ignore[no-untyped-def]
    command = None if torchrun is None else parse_torchrun([*torchrun, "x.py"], {})
    return lay_out(load_cluster("h100"), RunOptions(command=(), **options), command)  # type: ignore[arg-type]
