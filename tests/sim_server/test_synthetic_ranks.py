"""Ranks that generators play, in place of live ones."""

from __future__ import annotations

import pytest
from played_ranks import Script, make_settings, training, whole_files
from recorded_runs import record

from sim_server.errors import Deadlock
from sim_server.records import WaitKind
from sim_server.records.writer import wait
from sim_server.simulation import Simulation
from sim_server.sources.drive import drive
from sim_server.sources.source import RankSource
from sim_server.sources.synthetic import Steps, SyntheticRank


def steps(script: Script) -> Steps:
    """What a script does."""
    cells = b""
    for step, _, waits in script.steps:
        cells += step
        if waits:
            reply = yield cells
            assert reply is not None
            cells = b""
    return cells


def simulate(ranks: list[RankSource]) -> Simulation:
    """To the end of all ranks, which is a good one."""
    simulation = Simulation(make_settings(len(ranks)))
    drive(simulation, ranks, dict.fromkeys(range(len(ranks)), 0), lambda name, content: None)
    return simulation


def test_generators_have_the_history_of_ranks() -> None:
    """The same records give the same spans, whoever writes them."""
    scripts = [training(rank, 4) for rank in range(4)]
    ranks: list[RankSource] = [
        SyntheticRank(rank, steps(script)) for rank, script in enumerate(scripts)
    ]
    files = whole_files(simulate(ranks).files())
    assert files["digest"] == record(scripts)["digest"]


def test_a_generator_is_told_the_answer() -> None:
    """What it does next may depend on it: here the number of a communicator."""
    seen = []

    def joins(rank: int) -> Steps:
        for unique_id in (5, 6):
            reply = yield wait(WaitKind.COMM_INIT, unique_id=unique_id, size=2, position=rank)
            assert reply is not None
            seen.append((rank, reply.value))
        return b""

    simulate([SyntheticRank(rank, joins(rank)) for rank in range(2)])
    assert sorted(seen) == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_generators_that_wait_for_each_other_are_a_deadlock() -> None:
    """As of live ranks; nobody waits for ever."""

    def joins(rank: int) -> Steps:
        yield wait(WaitKind.COMM_INIT, unique_id=rank, size=2, position=rank)
        return b""

    with pytest.raises(Deadlock):
        simulate([SyntheticRank(rank, joins(rank)) for rank in range(2)])
