"""One simulation: what ranks are told, when, and what is kept of it. Played ranks, real engine."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import simpy
from engine_harness import cell, op
from played_ranks import FLOAT, GEMM, Script, make_settings, play, training, whole_files

from sim_server.collectives import Communication
from sim_server.collectives.tuning import comm_init_ns
from sim_server.errors import Deadlock, RankFailed, UnsupportedCall
from sim_server.log.history import KERNEL_SPAN
from sim_server.records import NcclOpKind, RecordKind, WaitFlags, WaitKind
from sim_server.records.operations import Operation
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.timings import model_timer

ENDED = "missing: has ended with exit status 0"


def row(ranks: list[int], state: str, since_ns: int | None, site: str) -> dict[str, Any]:
    """A row of a deadlock report."""
    return {"ranks": ranks, "state": state, "since_ns": since_ns, "site": site}


def duration_alone_ns(operation: Operation, settings: Settings) -> int:
    """What the network takes for an operation that has it to itself."""
    environment = simpy.Environment(initial_time=0)
    communication = Communication(
        environment, settings.cluster, settings.nodes, settings.gpus_per_node
    )
    ends_ns: Any = environment.run(communication.start(operation))
    return int(max(ends_ns))


def test_a_rank_waits_for_its_kernel() -> None:
    """The answer's time is the launch plus what the timer says of the signature."""
    duration_ns = model_timer(make_settings(1)).time(GEMM | {"k": 1024}).duration_ns
    _, (reply,) = play([Script().gemm(gap=500).synchronise(gap=20)])
    assert reply.time_ns == 500 + duration_ns


def test_ranks_meet_in_a_communicator() -> None:
    """All are told its number and members in order, when the last has come and it is set up."""
    scripts = [Script().join(9, 2, 1 - rank, gap=100 * (rank + 1)) for rank in range(2)]
    _, replies = play(scripts)
    assert {reply.time_ns for reply in replies} == {200 + comm_init_ns(2)}
    assert {reply.value for reply in replies} == {1}
    told = {reply.rank: reply.payload for reply in replies}
    assert told == {0: struct.pack("<3I", 1, 0, 1), 1: struct.pack("<3I", 1, 0, 0)}


def test_a_split_answers_who_gets_none_with_zero() -> None:
    """NCCL_SPLIT_NOCOLOR."""
    scripts = [Script().join(9, 2, rank).split(1, colour=-rank, key=0) for rank in range(2)]
    _, replies = play(scripts)
    assert sorted((reply.rank, reply.value) for reply in replies[2:]) == [(0, 2), (1, 0)]


def test_a_split_takes_negative_colours() -> None:
    """All numbers but NCCL_SPLIT_NOCOLOR."""
    scripts = [Script().join(9, 2, rank).split(1, colour=-7, key=0) for rank in range(2)]
    _, replies = play(scripts)
    assert [reply.value for reply in replies[2:]] == [2, 2]


def test_a_split_begins_when_all_of_the_parent_have_come() -> None:
    """Also for those whose own colour is complete: rank 1 comes a second later than rank 0."""
    scripts = [Script().join(9, 2, rank) for rank in range(2)]
    for rank, script in enumerate(scripts):
        script.wait(WaitKind.COMM_SPLIT, parent=1, color=rank, gap=rank * 10**9)
    _, replies = play(scripts)
    ends_ns = {reply.time_ns for reply in replies[2:]}
    assert ends_ns == {comm_init_ns(2) + 10**9 + comm_init_ns(1)}


def group(rank: int) -> Script:
    """Joins two communicators in one group, each rank in its own order."""
    script = Script()
    order = (9, 8) if rank == 0 else (8, 9)
    for flags in (int(WaitFlags.ANNOUNCES), 0):
        for unique_id in order:
            script.wait(
                WaitKind.COMM_INIT, unique_id=unique_id, size=2, position=rank, flags=flags, gap=100
            )
    return script


def test_ranks_may_announce_communicators_in_any_order() -> None:
    """Who announces is answered at once; the communicator when all its ranks have announced."""
    _, replies = play([group(0), group(1)])
    told = {
        rank: [(reply.time_ns, reply.value) for reply in replies if reply.rank == rank]
        for rank in range(2)
    }
    ready_ns = 200 + comm_init_ns(2)
    announced = [(100, 0), (200, 0)]
    assert told[0][:2] == told[1][:2] == announced
    assert [time_ns for time_ns, _ in told[0][2:]] == [ready_ns, ready_ns + 100]
    assert [value for _, value in told[0][2:]] == [value for _, value in told[1][:1:-1]]
    assert {value for _, value in told[0][2:]} == {1, 2}


def test_a_collective_takes_what_the_network_takes() -> None:
    """It moves when its last participant has arrived; all of them end together."""
    settings = make_settings(4)
    scripts = [Script().join(9, 4, rank) for rank in range(4)]
    for rank, script in enumerate(scripts):
        script.all_reduce(0, gap=1000 * rank).synchronise()
    simulation, replies = play(scripts, settings)
    operation = Operation(NcclOpKind.ALL_REDUCE, 1 << 20, FLOAT, members=(0, 1, 2, 3))
    created_ns = comm_init_ns(4)
    end_ns = created_ns + 3000 + duration_alone_ns(operation, settings)
    assert [reply.time_ns for reply in replies[4:]] == [end_ns] * 4
    (kept,) = whole_files(simulation.files())["operations"]
    assert kept == {
        **{"kind": "all_reduce", "comm": 1, "bytes": 4 << 20, "count": 1 << 20, "dtype": FLOAT},
        **{"members": [0, 1, 2, 3], "moves_ns": created_ns + 3000, "ends_ns": [end_ns] * 4},
        "arrivals_ns": [created_ns + 1000 * rank for rank in range(4)],
        **{"site": "an unknown line", "algorithm": "Ring", "protocol": "Simple"},
        "limited_by": "latency",
    }


def test_a_send_meets_its_receive() -> None:
    """By position in the communicator; participants are source and destination."""
    scripts = [Script().join(9, 2, 1 - rank) for rank in range(2)]
    scripts[0].nccl(op(NcclOpKind.RECV, 0, count=64, root=0, dtype=FLOAT))
    scripts[1].nccl(op(NcclOpKind.SEND, 0, count=64, root=1, dtype=FLOAT), gap=700)
    for script in scripts:
        script.synchronise()
    simulation, replies = play(scripts)
    (kept,) = whole_files(simulation.files())["operations"]
    assert (kept["kind"], kept["members"], kept["bytes"]) == ("send", [1, 0], 256)
    assert kept["moves_ns"] == comm_init_ns(2) + 700
    assert kept["algorithm"] == "Direct"
    assert {reply.time_ns for reply in replies[2:]} == set(kept["ends_ns"])


def test_nothing_happens_at_or_after_the_clock_of_a_running_rank() -> None:
    """It may yet do something there; the others are told who holds them up."""
    simulation = Simulation(make_settings(2))
    waits = Script().gemm(gap=10).synchronise()
    simulation.feed(0, b"".join(step for step, _, _ in waits.steps), 10)
    simulation.feed(1, b"", 5)
    assert simulation.advance() == []
    assert simulation.held_up_by() == [1]
    simulation.feed(1, b"", 10**9)
    (reply,) = simulation.advance()
    assert reply.rank == 0
    assert simulation.held_up_by() == []


def test_a_rank_set_aside_holds_nobody_up_and_resumes_at_the_simulation_s_time() -> None:
    """It waited outside, for something that costs no virtual time."""
    simulation = Simulation(make_settings(2))
    waits = Script().gemm(gap=10_000).synchronise()
    simulation.feed(0, b"".join(step for step, _, _ in waits.steps), 10_000)
    assert simulation.set_aside(1, simulation.wakeups)
    (first,) = simulation.advance()
    simulation.exited(0, 0)
    simulation.feed(1, cell(RecordKind.WAIT, id=int(WaitKind.RESUME)), 0)
    (resumed,) = simulation.advance()
    assert (first.rank, resumed.rank) == (0, 1)
    assert resumed.time_ns >= first.time_ns


def test_a_collective_that_a_rank_never_joins_is_a_deadlock() -> None:
    """Named: communicator, operation, who arrived at which line, who is missing, who waits."""
    scripts = [Script().join(9, 3, rank).site(4, f"train.py:{7 + rank} main") for rank in range(3)]
    for script in scripts[:2]:
        script.all_reduce(0, count=10, site=4).synchronise(site=4)
    with pytest.raises(Deadlock) as caught:
        play(scripts)
    title = "communicator 1 (ranks 0-2), AllReduce number 0 of 10 x float32"
    assert str(caught.value) == (
        "deadlock: ranks 0-1 wait and nobody can end the waiting; so it is on hardware. "
        f"First: {title}."
    )
    arrived_ns = comm_init_ns(3)
    assert caught.value.tables == [
        {
            "title": title,
            "rows": [
                row([0], "waits here", arrived_ns, "train.py:7 main"),
                row([1], "waits here", arrived_ns, "train.py:8 main"),
                row([2], ENDED, None, "last GPU call at an unknown line"),
            ],
        }
    ]


def test_ranks_that_are_stuck_alike_share_a_row() -> None:
    """The report on 64 ranks, one of which left out a collective, is as long as that on three."""
    scripts = [Script().join(9, 64, rank).site(4, "train.py:7 main") for rank in range(64)]
    for rank, script in enumerate(scripts):
        if rank != 5:
            script.all_reduce(0, count=10, site=4)
        script.all_reduce(1, count=10, comm=1, site=4).synchronise(site=4)
    with pytest.raises(Deadlock) as caught:
        play(scripts, make_settings(64, nodes=8))
    first, second = caught.value.tables
    others = [rank for rank in range(64) if rank != 5]
    held_up = "waits in device synchronize for AllReduce"
    since_ns = comm_init_ns(64)
    line = "train.py:7 main"
    assert first["rows"] == [
        row(others, "waits here", since_ns, line),
        row([5], f"missing: {held_up} 1 of communicator 1", since_ns, line),
    ]
    assert second["rows"] == [
        row([5], "waits here", since_ns, line),
        row(others, f"missing: {held_up} 0 of communicator 1", since_ns, line),
    ]


def test_a_communicator_that_a_rank_never_joins_is_a_deadlock() -> None:
    """The ranks that wait in its creation are named."""
    with pytest.raises(Deadlock) as caught:
        play([Script().join(9, 3, 0), Script().join(9, 3, 1), Script()])
    (table,) = caught.value.tables
    assert table["title"] == "a new communicator of 3 ranks (ncclCommInitRank)"
    assert table["rows"] == [
        row([0, 1], "waits here", 0, "an unknown line"),
        row([], "1 missing; which ranks is not known", None, ""),
    ]


def test_a_split_that_a_rank_never_joins_is_a_deadlock() -> None:
    """The rank that is missing waits for something else, which is said."""
    scripts = [Script().join(9, 2, rank) for rank in range(2)]
    scripts[0].split(1, colour=0, key=0)
    scripts[1].all_reduce(0, count=10).synchronise()
    with pytest.raises(Deadlock) as caught:
        play(scripts)
    pending, split = caught.value.tables
    since_ns = comm_init_ns(2)
    assert pending["rows"][1]["state"] == "missing: waits in ncclCommSplit"
    assert split["rows"] == [
        row([0], "waits here", since_ns, "an unknown line"),
        row(
            [1],
            "missing: waits in device synchronize for AllReduce 0 of communicator 1",
            since_ns,
            "an unknown line",
        ),
    ]


def test_a_send_without_a_receive_is_a_deadlock() -> None:
    """The pair is named by its two ranks."""
    scripts = [Script().join(9, 3, rank) for rank in range(3)]
    scripts[2].nccl(op(NcclOpKind.SEND, 0, count=64, root=1, dtype=FLOAT))
    scripts[2].synchronise()
    with pytest.raises(Deadlock) as caught:
        play(scripts)
    (table,) = caught.value.tables
    assert table["title"] == (
        "communicator 1 (ranks 0-2), Send number 0 from rank 2 to rank 1 of 64 x float32"
    )
    assert [shown["ranks"] for shown in table["rows"]] == [[2], [1]]


def test_a_rank_is_not_set_aside_for_what_was_seen_before_a_wakeup() -> None:
    """Rank 0 got leave to act since: what it does may be on its way. Nor while it waits itself."""
    simulation = Simulation(make_settings(2))
    seen = simulation.wakeups
    simulation.feed(0, cell(RecordKind.WAIT, id=int(WaitKind.OUTSIDE)), 0)
    assert not simulation.set_aside(0, seen)
    simulation.feed(1, b"", 5)
    (reply,) = simulation.advance()
    assert (reply.rank, reply.time_ns) == (0, 0)
    assert not simulation.set_aside(1, seen)
    assert simulation.set_aside(1, simulation.wakeups)


def test_a_helper_that_waits_for_its_turn_is_held_up_by_ranks_that_run() -> None:
    """Its own too, if that waits for it outside."""
    simulation = Simulation(make_settings(2))
    act = cell(
        *(RecordKind.WAIT, 0, 0, 0, 0, 1),
        id=int(WaitKind.OUTSIDE),
        flags=int(WaitFlags.BACKGROUND),
        host_gap_ns=5,
    )
    simulation.feed(0, act, 5)
    assert simulation.advance() == []
    assert simulation.held_up_by() == [0, 1]
    assert simulation.set_aside(1, simulation.wakeups)
    assert [reply.rank for reply in simulation.advance()] == [0]
    assert simulation.held_up_by() == []


def test_a_helper_that_waits_for_work_is_held_up_by_ranks_that_run() -> None:
    """Nobody else need wait: its own rank may be waiting for it alone."""
    simulation = Simulation(make_settings(1))
    stream = cell(RecordKind.STREAM_CREATE, stream=2)
    work = cell(RecordKind.FILL, 1 << 20, stream=2)
    wait = cell(
        *(RecordKind.WAIT, 0, 0, 0, 0, 1),
        id=int(WaitKind.STREAM),
        flags=int(WaitFlags.BACKGROUND),
        stream=2,
    )
    simulation.feed(0, stream + work + wait, 0)
    assert simulation.advance() == []
    assert simulation.held_up_by() == [0]
    assert simulation.set_aside(0, simulation.wakeups)
    (reply,) = simulation.advance()
    assert reply.time_ns > 0
    assert simulation.held_up_by() == []


def test_a_driver_that_waits_is_held_up_by_another_one_of_its_rank() -> None:
    """Nobody else need wait: the other one may wait for it, as for a lock that it holds."""
    simulation = Simulation(make_settings(1))
    stream = cell(RecordKind.STREAM_CREATE, stream=2)
    waits = [
        cell(RecordKind.WAIT, 0, 0, 0, 0, slot, id=int(WaitKind.STREAM), stream=2, host_gap_ns=gap)
        for slot, gap in ((0, 0), (1, 5))
    ]
    work = cell(RecordKind.FILL, 1 << 20, stream=2)
    simulation.feed(0, stream + waits[0] + work + waits[1], 5)
    (reply,) = simulation.advance()
    assert (reply.slot, reply.time_ns) == (0, 0)
    assert simulation.held_up_by() == simulation.helpers_run() == [0]
    assert simulation.set_aside(0, simulation.wakeups)
    (reply,) = simulation.advance()
    assert (reply.slot, reply.time_ns > 5) == (1, True)
    assert simulation.held_up_by() == []


def test_no_deadlock_while_a_rank_is_aside() -> None:
    """It may come back and end the others' waiting."""
    simulation = Simulation(make_settings(2))
    joins = Script().join(9, 2, 0)
    simulation.feed(0, b"".join(step for step, _, _ in joins.steps), 0)
    assert simulation.set_aside(1, simulation.wakeups)
    assert simulation.advance() == []
    simulation.exited(1, 0)
    with pytest.raises(Deadlock):
        simulation.advance()


def test_ranks_that_disagree_about_a_collective() -> None:
    """Both are named with what they issued and where."""
    scripts = [Script().join(9, 2, rank).site(4, f"train.py:{7 + rank} main") for rank in range(2)]
    for rank, script in enumerate(scripts):
        script.all_reduce(0, count=10 + rank, gap=rank, site=4).synchronise()
    with pytest.raises(Deadlock) as caught:
        play(scripts)
    assert str(caught.value) == (
        "Mismatched operation 0 of communicator 1: rank 0 issued AllReduce(10 x float32, sum) at "
        "train.py:7 main; rank 1 issued AllReduce(11 x float32, sum) at train.py:8 main. On "
        "hardware this hangs or gives wrong results; every rank of a communicator must issue the "
        "same operations in the same order."
    )


def test_an_unsupported_call_ends_the_run() -> None:
    """Named: rank, call, library, detail, Python line, and what to do next."""
    payload = {"library": "cudart", "symbol": "cudaGraphLaunch", "detail": "graphs"}
    script = Script().site(3, "train.py:5 main")
    script.announce(RecordKind.UNSUPPORTED, json.dumps(payload).encode(), site=3)
    with pytest.raises(UnsupportedCall) as caught:
        play([script])
    assert str(caught.value) == (
        "rank 0 called cudaGraphLaunch of cudart (graphs), which is not modelled, at "
        "train.py:5 main. Nothing may be guessed, so the run ends here. `phantora coverage "
        "--library cudart` lists what is; with --unsupported error the call would fail and the "
        "program go on."
    )


def test_an_unsupported_call_that_was_answered() -> None:
    """It is kept with its count, and the run goes on."""
    call = {"library": "cudart", "symbol": "cudaMemAdvise", "detail": "", "answer": "success"}
    script = Script().site(3, "train.py:5 main")
    script.announce(RecordKind.UNSUPPORTED, json.dumps(call).encode(), site=3)
    counts = {"kind": "unsupported", "calls": [["cudart", "cudaMemAdvise", "", 3, 7]]}
    script.announce(RecordKind.STATISTICS, json.dumps(counts).encode())
    files = dict(play([script])[0].files())
    expected = {"rank": 0, **call, "site": "train.py:5 main", "count": 7}
    assert json.loads(files["unsupported.json"]) == [expected]


@pytest.mark.parametrize("alike", [False, True], ids=["different ranks", "ranks in step"])
@pytest.mark.parametrize("seed", range(4))
def test_delivery_does_not_show(seed: int, alike: bool) -> None:
    """Every file is the same however the records were cut and in whichever order they came."""
    whole, _ = play([training(rank, 4, alike) for rank in range(4)])
    cut, _ = play([training(rank, 4, alike) for rank in range(4)], rng=random.Random(seed))
    expected, found = whole_files(whole.files()), whole_files(cut.files())
    for files in (expected, found):
        files["markers"].sort(key=lambda marker: marker[0])  # they come rank by rank
        files |= {name: files[name].tobytes() for name in ("spans", "link_use")}
    differing = [name for name in expected if expected[name] != found[name]]
    assert differing == []
    assert len(found) == len(expected)


def test_equal_launches_share_a_timing_whatever_the_rank() -> None:
    """Spans of a kernel point to its signature's timing; those that run first come first."""
    simulation, _ = play([training(rank, 4) for rank in range(4)])
    files = whole_files(simulation.files())
    timings, spans = files["timings"], files["spans"]
    ids = spans["id"][spans["kind"] == KERNEL_SPAN]
    assert len(timings) == 4
    assert len(ids) == 4 * 3 * 3
    assert list(dict.fromkeys(ids.tolist())) == list(range(4))
    assert {timing["class"] for timing in timings} == {"gemm"}


def test_the_digest_is_of_the_history() -> None:
    """One nanosecond more of host time in one rank gives another digest."""
    scripts = [training(rank, 2) for rank in range(2)]
    usual = dict(play(scripts)[0].files())["digest"]
    later = [training(0, 2), training(1, 2)]
    later[1].gemm(gap=1)
    assert dict(play(later)[0].files())["digest"] != usual


def test_a_rank_that_failed_is_the_cause_and_not_a_deadlock() -> None:
    """The others wait for it, but that is what its failure did."""
    simulation = Simulation(make_settings(2))
    joins = Script().join(9, 2, 0)
    simulation.feed(0, b"".join(step for step, _, _ in joins.steps), 0)
    simulation.exited(1, 7)
    with pytest.raises(RankFailed, match=r"Rank 1 ended with exit code 7\."):
        simulation.advance()


def test_what_is_known_of_a_rank_that_failed() -> None:
    """Its last line, what did not fit, and what it read that nothing had computed."""
    simulation = Simulation(make_settings(1))
    script = Script().site(1, "train.py:10 main").site(2, "train.py:20 load")
    script.do(RecordKind.OUT_OF_MEMORY, bytes=3 << 30, free_bytes=1 << 30, used_bytes=0, site=1)
    script.do(RecordKind.SYNTHETIC_READ, bytes=4, site=1).do(
        RecordKind.SYNTHETIC_READ, bytes=70_016, site=2
    )
    simulation.feed(0, b"".join(step for step, _, _ in script.steps), 0)
    assert str(simulation.failure_of(0, -9)) == (
        "Rank 0 was killed by signal 9. Its last GPU call was at train.py:20 load. It had asked "
        "for 3.00 GiB of device memory at train.py:10 main, where 1.00 GiB were free. It had read "
        "70,016 bytes back at train.py:20 load that nothing had computed; copies and collectives "
        "up to --values-threshold carry real data."
    )


@pytest.mark.parametrize(("site", "is_told"), [(1, False), (2, True)])
def test_what_a_rank_that_failed_had_read_last(site: int, is_told: bool) -> None:
    """A few bytes count where its last GPU call was: a size that nobody knows, for one."""
    simulation = Simulation(make_settings(1))
    script = Script().site(1, "train.py:10 main").site(2, "train.py:20 pool")
    script.do(RecordKind.SYNTHETIC_READ, bytes=8, site=site)
    script.do(RecordKind.OUT_OF_MEMORY, bytes=1, free_bytes=0, used_bytes=0, site=2)
    simulation.feed(0, b"".join(step for step, _, _ in script.steps), 0)
    told = str(simulation.failure_of(0, 1))
    assert "Its last GPU call was at train.py:20 pool." in told
    assert ("It had read 8 bytes back at train.py:20 pool that nothing" in told) == is_told


def product_beside_collective_ns(
    variables: Mapping[str, str], sm_contention: bool = True
) -> tuple[int, int]:
    """How long a product of matrices takes while its rank waits in an all-reduce, and alone."""
    settings = make_settings(2)
    settings = replace(
        settings,
        cluster=replace(settings.cluster, sm_contention=sm_contention),
        nccl_environment=variables,
    )
    first = Script().join(9, 2, 0).all_reduce(0).gemm(k=1 << 17, gap=1000)
    first.wait(WaitKind.STREAM, stream=2)
    second = Script().join(9, 2, 1).all_reduce(0, gap=10**9)
    _, replies = play([first, second.synchronise()], settings)
    (reply,) = (one for one in replies[2:] if one.rank == 0)
    timing = model_timer(settings).time(GEMM | {"k": 1 << 17})
    assert timing.sm_demand > 0.4
    return reply.time_ns - comm_init_ns(2) - 1000, timing.duration_ns


def test_channels_slow_what_runs_beside_them() -> None:
    """A product beside a collective takes longer when channels leave it fewer multiprocessors than
    it fills; with few channels, or without contention, it is as fast as alone."""
    beside_ns, alone_ns = product_beside_collective_ns({"NCCL_MIN_NCHANNELS": "64"})
    assert beside_ns > 1.05 * alone_ns
    for variables, contention in (({"NCCL_MAX_NCHANNELS": "2"}, True), ({}, False)):
        beside_ns, alone_ns = product_beside_collective_ns(variables, contention)
        assert beside_ns == pytest.approx(alone_ns, rel=1e-3)
