"""A recorded run, simulated again without its ranks."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from engine_harness import Program, op
from played_ranks import FLOAT, PlayedRanks, Script, make_settings, training, whole_files

from sim_server.errors import Deadlock, PhantoraError
from sim_server.records import NcclOpKind, RecordKind, WaitFlags, WaitKind
from sim_server.replay import Approximations, RecordedRank, replay
from sim_server.run_log import ANSWER
from sim_server.settings import Settings
from sim_server.simulation import Simulation


def record(
    scripts: Sequence[Program],
    exits: dict[int, int] | None = None,
    settings: Settings | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """The files of a run of scripts, to its end or to its failure, which is kept as "error".

    `seed`: cuts and shuffles what is delivered. `exits`: 0 for ranks that are not named.
    """
    rng = random.Random(seed) if seed is not None else None
    simulation = Simulation(settings or make_settings(len(scripts)))
    ranks, error = PlayedRanks(scripts), None
    while not all(ranks.gone) and error is None:
        try:
            for rank in range(len(scripts)):
                cells = ranks.take(rank, None if rng is None else rng.randint(0, 3))
                simulation.feed(rank, cells, ranks.clocks_ns[rank])
                if ranks.leaves(rank):
                    simulation.exited(rank, (exits or {}).get(rank, 0))
            for reply in simulation.advance():
                if reply.slot == 0:  # helper threads of a script use others
                    ranks.answer(reply.rank, reply.time_ns)
        except PhantoraError as failure:
            error = failure
    return whole_files(simulation.files()) | {"error": str(error)}


def again(
    files: dict[str, Any], settings: Settings | None = None, piece_cells: int = 7
) -> tuple[dict[str, Any], Approximations]:
    """The files of a replay, fed in small pieces. `settings`: others than those of the run."""
    recorded_settings = make_settings(len(files["memory.json"]["per_rank"]))
    approximations = Approximations()
    ranks = [
        RecordedRank(
            cut(files.get(f"records/rank-{rank}", b""), 64 * piece_cells),
            cut(files.get(f"answers/rank-{rank}", b""), ANSWER.size * 2),
            literal=settings is None,
            approximations=approximations,
        )
        for rank in range(recorded_settings.ranks)
    ]
    exits = {int(rank): status for rank, status in files["exits.json"].items()}
    simulation = Simulation(settings or recorded_settings)
    pieces: list[tuple[str, bytes]] = []
    error = None
    try:
        replay(simulation, ranks, exits, lambda name, content: pieces.append((name, content)))
    except PhantoraError as failure:
        error = failure
    pieces += simulation.files()
    return whole_files(pieces) | {"error": str(error)}, approximations


def cut(stream: bytes, piece_bytes: int) -> Iterator[bytes]:
    """In pieces."""
    for start in range(0, len(stream), piece_bytes):
        yield stream[start : start + piece_bytes]


def check_same(files: dict[str, Any]) -> None:
    """A replay under the run's settings is the run."""
    found, _ = again(files)
    assert found["digest"] == files["digest"]
    for name in ("error", "operations", "exits.json", "memory.json"):
        assert found.get(name) == files.get(name), name


def pipeline() -> list[Script]:
    """Two stages that send to each other, ask for progress, sleep and split."""
    scripts = [Script().site(1, "pipe.py:3 main").join(7, 2, rank) for rank in range(2)]
    for rank, script in enumerate(scripts):
        script.split(1, colour=0, key=-rank)
        for step in range(4):
            script.gemm(k=512 * (1 + rank), gap=40)
            kinds = (NcclOpKind.SEND, NcclOpKind.RECV)
            mine = kinds[(rank + step) % 2]
            position = step // 2
            script.nccl(op(mine, position, comm=2, count=1 << 18, root=rank, dtype=FLOAT), stream=3)
            done = script.record(stream=3)
            for gap in (10, 500, 900_000):
                script.wait(WaitKind.QUERY_EVENT, done, gap=gap)
            script.wait(WaitKind.QUERY_STREAM, stream=2, gap=5)
            script.wait(WaitKind.EVENT, done, slot=2, flags=int(WaitFlags.BACKGROUND))
            script.wait(WaitKind.QUERY_EVENT, done, slot=3, flags=int(WaitFlags.BACKGROUND))
            script.wait(WaitKind.RESUME, gap=30_000)  # it sleeps
            script.synchronise(gap=20)
    return scripts


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_the_same_settings_give_the_same_history(seed: int | None) -> None:
    """Collectives, splits, sends, queries, sleeps and helper threads, however it was delivered."""
    check_same(record([training(rank, 4) for rank in range(4)], seed=seed))
    check_same(record(pipeline(), seed=seed))


@pytest.mark.parametrize("piece_cells", [1, 2, 1000])
def test_pieces_do_not_show(piece_cells: int) -> None:
    """Records and their payloads may be cut anywhere."""
    files = record([training(rank, 2) for rank in range(2)])
    assert again(files, piece_cells=piece_cells)[0]["digest"] == files["digest"]


def test_a_replay_can_be_replayed() -> None:
    """Its data file is one like any other."""
    files = record(pipeline())
    second, _ = again(files)
    third, _ = again(second)
    assert third["digest"] == files["digest"]
    for rank in range(2):
        assert third[f"records/rank-{rank}"] == files[f"records/rank-{rank}"]
        assert third[f"answers/rank-{rank}"] == files[f"answers/rank-{rank}"]


def test_failures_come_again_at_the_same_point() -> None:
    """A mismatch, a deadlock, a rank that fails; with the same message."""
    mismatched = [Script().site(1, "a.py:1 f").join(9, 2, rank) for rank in range(2)]
    for rank, script in enumerate(mismatched):
        script.gemm().all_reduce(0, count=10 + rank, gap=5 * rank).gemm().synchronise()
    deadlocked = [Script().join(9, 2, rank).gemm() for rank in range(2)]
    deadlocked[0].all_reduce(0).synchronise().gemm()
    for scripts, exits, message in (
        (mismatched, {}, "Mismatched operation 0"),
        (deadlocked, {}, "deadlock: rank 0 waits"),
        (deadlocked, {1: 7}, "Rank 1 ended with exit code 7."),
    ):
        files = record(scripts, exits)
        assert files["error"].startswith(message)
        check_same(files)


def test_a_rank_that_was_killed_while_it_waited() -> None:
    """Nothing answered it, and the others had gone on without it."""
    simulation = Simulation(make_settings(2))
    scripts = [Script().gemm().synchronise().gemm().synchronise(), Script().join(9, 2, 1)]
    ranks = PlayedRanks(scripts)
    simulation.feed(1, ranks.take(1), 0)
    simulation.exited(1, -9)
    while not ranks.leaves(0):
        simulation.feed(0, ranks.take(0), ranks.clocks_ns[0])
        for reply in simulation.advance():
            ranks.answer(reply.rank, reply.time_ns)
    simulation.exited(0, 0)
    simulation.advance()
    check_same(whole_files(simulation.files()) | {"error": "None"})


def test_an_unsupported_call_comes_at_the_end() -> None:
    """Everything that ranks had done until then is simulated first."""
    call = {"library": "cudart", "symbol": "cudaGraphLaunch", "detail": ""}
    scripts = [Script().gemm().synchronise().gemm(), Script().gemm().synchronise()]
    scripts[1].announce(RecordKind.UNSUPPORTED, json.dumps(call).encode())
    files = record(scripts)
    found, _ = again(files)
    assert found["error"] == files["error"]
    assert "cudaGraphLaunch" in found["error"]
    assert len(found["spans"]) >= len(files["spans"])


def outside_wait() -> dict[str, Any]:
    """Rank 1 waits outside while rank 0 computes, was set aside, and comes back late."""
    scripts = [Script().gemm(k=4096).synchronise().gemm(), Script(streams=1).resume()]
    scripts[1].gemm(gap=70, stream=1).synchronise()
    simulation, ranks = Simulation(make_settings(2)), PlayedRanks(scripts)
    simulation.feed(0, ranks.take(0), 0)
    assert simulation.set_aside(1, simulation.stirs)
    for rank in (0, 1):
        while not ranks.leaves(rank):
            simulation.feed(rank, ranks.take(rank), ranks.clocks_ns[rank])
            for reply in simulation.advance():
                ranks.answer(reply.rank, reply.time_ns)
        simulation.exited(rank, 0)
    simulation.advance()
    return whole_files(simulation.files()) | {"error": "None"}


def test_an_outside_wait_ends_when_it_did() -> None:
    """When a rank came back from outside is not in its records: the answers know."""
    files = outside_wait()
    kinds = [kind for kind, *_ in ANSWER.iter_unpack(files["answers/rank-1"])]
    assert WaitKind.RESUME in kinds
    check_same(files)


def slow_gpu(settings: Settings) -> Settings:
    """The same GPU with tensor cores of a third of the speed."""
    rates = settings.gpu.gemm
    slower = dataclasses.replace(rates, sm_flops_per_ns=rates.sm_flops_per_ns / 3)
    return dataclasses.replace(settings, gpu=dataclasses.replace(settings.gpu, gemm=slower))


def test_other_settings_are_what_a_run_under_them_gives() -> None:
    """For programs that do the same whatever the time, a replay is exact."""
    scripts = [training(rank, 4) for rank in range(4)]
    settings = slow_gpu(make_settings(4))
    found, approximations = again(record(scripts), settings)
    assert found["digest"] == record(scripts, settings=settings)["digest"]
    assert approximations == Approximations()


def test_a_poll_that_found_its_event_done_waits_for_it_under_other_settings() -> None:
    """The program would have gone on polling; it must not run ahead of its GPU."""
    script = Script().gemm(k=8192)
    done = script.record(stream=2)
    for _ in range(3):
        script.wait(WaitKind.QUERY_EVENT, done, gap=10)
    script.wait(WaitKind.QUERY_EVENT, done, gap=10**9)
    script.gemm(gap=77).synchronise()
    settings = dataclasses.replace(slow_gpu(make_settings(1)))
    found, approximations = again(record([script]), settings)
    assert approximations == Approximations(polls=1, outside_waits=0)
    kernels = found["spans"][found["spans"]["kind"] == 1]
    assert kernels["issue_ns"][1] == max(10**9 + 30, kernels["end_ns"][0]) + 77


def test_an_outside_wait_lasts_as_long_under_other_settings() -> None:
    """What it waited for is not known; how often that was assumed is told."""
    files = outside_wait()
    _, approximations = again(files, slow_gpu(make_settings(2)))
    assert approximations.outside_waits == 1


def test_a_deadlock_is_not_made_up_by_other_settings() -> None:
    """What did not wait for each other in the run does not in the replay."""
    found, _ = again(record(pipeline()), slow_gpu(make_settings(2)))
    assert found["error"] == "None"
    assert issubclass(Deadlock, PhantoraError)
