"""A recorded run, simulated again without its ranks."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from engine_harness import op
from played_ranks import FLOAT, PlayedRanks, Script, make_settings, training, whole_files
from recorded_runs import again, check_same, record, slow_gpu

from sim_server.errors import Deadlock, PhantoraError
from sim_server.records import (
    RECORD_TYPE,
    MarkerKind,
    NcclOpKind,
    RecordKind,
    WaitFlags,
    WaitKind,
)
from sim_server.simulation import Simulation
from sim_server.sources.recorded import Approximations


def pipeline() -> list[Script]:
    """Two stages that send to each other, ask for progress, sleep and split."""
    scripts = [Script().site(1, "pipe.py:3 main").join(7, 2, rank) for rank in range(2)]
    for rank, script in enumerate(scripts):
        for flags in (int(WaitFlags.ANNOUNCES), 0):
            for unique_id in (3 + rank, 4 - rank):
                script.wait(
                    WaitKind.COMM_INIT,
                    unique_id=unique_id,
                    size=2,
                    position=rank,
                    flags=flags,
                )
        script.split(1, colour=0, key=-rank)
        for step in range(4):
            script.gemm(k=512 * (1 + rank), gap=40)
            kinds = (NcclOpKind.SEND, NcclOpKind.RECV)
            mine = kinds[(rank + step) % 2]
            position = step // 2
            script.nccl(op(mine, position, comm=4, count=1 << 18, root=rank, dtype=FLOAT), stream=3)
            done = script.record(stream=3)
            for gap in (10, 500, 900_000):
                script.wait(WaitKind.QUERY_EVENT, instance=done, gap=gap)
            script.wait(WaitKind.QUERY_STREAM, stream=2, gap=5)
            script.wait(WaitKind.EVENT, instance=done, slot=2, flags=int(WaitFlags.BACKGROUND))
            script.wait(
                WaitKind.QUERY_EVENT, instance=done, slot=3, flags=int(WaitFlags.BACKGROUND)
            )
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
        assert third[f"records/rank-{rank}"] == second[f"records/rank-{rank}"]
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
        script.wait(WaitKind.QUERY_EVENT, instance=done, gap=10)
    script.wait(WaitKind.QUERY_EVENT, instance=done, gap=10**9)
    script.gemm(gap=77).synchronise()
    settings = dataclasses.replace(slow_gpu(make_settings(1)))
    found, approximations = again(record([script]), settings)
    assert approximations == Approximations(polls=1, not_ready=3)
    kernels = found["spans"][found["spans"]["kind"] == 1]
    assert kernels["issue_ns"][1] == max(10**9 + 30, kernels["end_ns"][0]) + 77


def test_a_deadlock_is_not_made_up_by_other_settings() -> None:
    """What did not wait for each other in the run does not in the replay."""
    found, _ = again(record(pipeline()), slow_gpu(make_settings(2)))
    assert found["error"] == "None"
    assert issubclass(Deadlock, PhantoraError)


def test_a_replay_that_comes_to_a_halt_says_where() -> None:
    """It is a fault of ours and never an end: in the run the ranks got further."""
    files = record([training(rank, 2) for rank in range(2)])
    files["records/rank-1"] = files["records/rank-1"][: 64 * 20]
    found, _ = again(files)
    assert found["error"].startswith("The resimulation came to a halt before the recording did:")
    assert re.search(r"rank 0 at record \d+ \(wait: device, slot 0\)", found["error"])


def test_a_recording_that_broke_off_is_simulated_as_far_as_ranks_go_together() -> None:
    """Their records end in different places; that is no deadlock and no fault."""
    files = record([training(rank, 2) for rank in range(2)])
    files["records/rank-1"] = files["records/rank-1"][: 64 * 20]
    found, _ = again(files, broke_off=True)
    assert found["error"] == "None"
    assert 0 < len(found["spans"]) < len(files["spans"])


@pytest.mark.parametrize(
    ("kind", "field", "value", "told"),
    [
        (RecordKind.NCCL_OP, "id", 128, "is not in communicator 128"),
        (RecordKind.MARKER, "id", 0x8001, "a mark of kind 32769"),
    ],
)
def test_records_that_do_not_fit_together(
    kind: RecordKind, field: str, value: int, told: str
) -> None:
    """Of a damaged file: noticed when they are read, or when virtual time comes to them."""
    script = training(0, 2)
    script.announce(RecordKind.MARKER, b"step", id=int(MarkerKind.RANGE_PUSH))
    script.announce(RecordKind.MARKER, b"", id=int(MarkerKind.RANGE_POP))
    files = record([script, training(1, 2)])
    rows = np.frombuffer(files["records/rank-0"], RECORD_TYPE).copy()
    first = next(at for at, row in enumerate(rows) if row["kind"] == kind)
    rows[first][field] = value
    files["records/rank-0"] = rows.tobytes()
    found, _ = again(files)
    assert found["error"].startswith("the recording is damaged: rank 0")
    assert told in found["error"]
