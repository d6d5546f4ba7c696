"""Ranks that drive several GPUs, in one simulation: played ranks, real engine."""

from __future__ import annotations

import pytest
from played_ranks import Script, make_settings, play, whole_files

from sim_server.errors import Mismatch
from sim_server.records import WaitFlags, WaitKind
from sim_server.settings import Settings


def join_all(script: Script, gpus: int, size: int, first: int = 0) -> Script:
    """As ncclCommInitAll: a rank joins with several GPUs, from position `first` on."""
    for flags in (int(WaitFlags.ANNOUNCES), 0):
        for gpu in range(first, first + gpus):
            args = {"unique_id": 9, "size": size, "position": gpu, "gpu": gpu + 1}
            script.wait(WaitKind.COMM_INIT, flags=flags, **args)
    return script


def all_reduce_times(scripts: list[Script], settings: Settings) -> list[int]:
    """How long the one all-reduce took on each GPU."""
    simulation, _ = play(scripts, settings)
    (kept,) = whole_files(simulation.files())["operations"]
    return [end_ns - int(kept["moves_ns"]) for end_ns in kept["ends_ns"]]


def test_gpus_of_one_rank_reduce_as_ranks_do() -> None:
    """Eight GPUs of one rank, four of each of two, and eight ranks: one time."""
    settings = make_settings(8)
    ranks = [Script().join(9, 8, rank) for rank in range(8)]
    for script in ranks:
        script.all_reduce(0).synchronise()
    expected = all_reduce_times(ranks, settings)
    for owners in ((8, 0, 0, 0, 0, 0, 0, 0), (4, 0, 0, 0, 4, 0, 0, 0)):
        scripts = [Script() for _ in owners]
        for rank, gpus in enumerate(owners):
            if gpus:
                join_all(scripts[rank], gpus, 8, rank)
            for device in range(rank, rank + gpus):
                scripts[rank].all_reduce(0, device=device)
            if gpus:
                scripts[rank].wait(WaitKind.DEVICE, device=rank)
        assert all_reduce_times(scripts, settings) == expected


def test_gpus_beyond_those_of_ranks_have_links_of_their_own() -> None:
    """One rank on a node of eight: its all-reduce over four GPUs takes as long as four ranks'."""
    ranks = [Script().join(9, 4, rank).all_reduce(0).synchronise() for rank in range(4)]
    script = join_all(Script(), 4, 4)
    for device in range(4):
        script.all_reduce(0, device=device)
    script.wait(WaitKind.DEVICE, device=0)
    one = make_settings(1)
    assert all_reduce_times([script], one) == all_reduce_times(ranks, make_settings(4))


def test_two_members_on_one_gpu_are_refused() -> None:
    """As NCCL does; ranks 0 and 1 have both left their device at 0."""
    scripts = [Script() for _ in range(2)]
    for rank, script in enumerate(scripts):
        script.wait(WaitKind.COMM_INIT, unique_id=9, size=2, position=rank, gpu=1)
    with pytest.raises(Mismatch, match=r"ranks 0 and 1 both join .* with GPU 0 of their node"):
        play(scripts)
