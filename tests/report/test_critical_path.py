"""The critical path of programs that the engine has played, where it is known by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from engine_harness import Program, op
from played_files import played_run

from phantora_py.data import RunData
from phantora_py.report.critical_path import Cause, critical_path
from phantora_py.report.window import Window, whole_run
from sim_server.errors import UsageError
from sim_server.log.history import COMMUNICATION_SPAN, KERNEL_SPAN
from sim_server.records import CopyKind, NcclOpKind, RecordKind, WaitKind

HOST, WAITING, COMMUNICATION = "host", "waiting", "communication"
Found = list[tuple[int, str, int]]
"""Rank, kernel or cause, and how long, from the begin to the end."""


def path_of(data: RunData, window: Window | None = None) -> Found:
    """The path from the begin of the run, or through a window."""
    window = window or Window(0, whole_run(data).end_ns, 0)
    steps = critical_path(data, window)
    assert [step.begin_ns for step in steps] == [
        window.begin_ns,
        *(step.end_ns for step in steps[:-1]),
    ]
    assert steps[-1].end_ns == window.end_ns
    names = []
    for step in steps:
        name = step.cause.value
        if step.cause is Cause.KERNELS:
            name = data.timings[data.spans_of(step.rank)["id"][step.span]]["name"]
        names.append((step.rank, name, step.length_ns))
    return names


def test_a_host_that_is_slow(tmp_path: Path) -> None:
    """A device that waits for its host has the host's time on the path, not the kernel before."""
    program = Program().kernel(100, gap=10).kernel(300, gap=500)
    assert path_of(played_run(tmp_path / "a.phr", [program])) == [(0, HOST, 510), (0, "k2", 300)]


def test_a_host_that_runs_ahead(tmp_path: Path) -> None:
    """Kernels that follow one another leave of the host the first call."""
    program = Program().kernel(100, gap=10).kernel(300, gap=20)
    found = path_of(played_run(tmp_path / "a.phr", [program]))
    assert found == [(0, HOST, 10), (0, "k1", 100), (0, "k2", 300)]


def test_events_and_not_times_decide(tmp_path: Path) -> None:
    """Of two kernels that end at once, the path goes by the one whose event was waited for."""
    program = Program(streams=4).kernel(400, stream=4, demand=0.3).kernel(600, stream=4, demand=0.3)
    program.kernel(1000, stream=2, demand=0.3)
    done = program.record(stream=2)
    program.stream_wait(done, stream=3).kernel(200, stream=3, demand=0.3)
    found = path_of(played_run(tmp_path / "a.phr", [program]))
    assert found == [(0, "k3", 1000), (0, "k4", 200)]


def test_an_event_of_an_event(tmp_path: Path) -> None:
    """A stream that only waits hands on what it waited for."""
    program = Program(streams=4).kernel(700, stream=2, demand=0.3)
    program.stream_wait(program.record(stream=2), stream=3)
    program.stream_wait(program.record(stream=3), stream=4).kernel(100, stream=4, demand=0.3)
    found = path_of(played_run(tmp_path / "a.phr", [program]))
    assert found == [(0, "k1", 700), (0, "k2", 100)]


def test_the_legacy_stream_orders_blocking_ones(tmp_path: Path) -> None:
    """Stream 1 blocks and stream 2 does not."""
    program = Program().kernel(500, stream=1, demand=0.3).kernel(800, stream=2, demand=0.3)
    program.kernel(50, stream=0, demand=0.3).kernel(400, stream=1, demand=0.3)
    found = path_of(played_run(tmp_path / "a.phr", [program]))
    assert found == [(0, "k1", 500), (0, "k3", 50), (0, "k4", 400)]


@pytest.mark.parametrize("kind", [WaitKind.STREAM, WaitKind.DEVICE, WaitKind.EVENT])
def test_a_host_that_waits(tmp_path: Path, kind: WaitKind) -> None:
    """The path goes on with what the host waited for."""
    program = Program().kernel(1000, gap=5)
    event = program.record()
    args = {"instance": event} if kind is WaitKind.EVENT else {}
    program.wait(kind, gap=20, stream=2, **args)
    program.kernel(300, gap=200)
    found = path_of(played_run(tmp_path / "a.phr", [program]))
    assert found == [(0, HOST, 5), (0, "k1", 1000), (0, HOST, 200), (0, "k2", 300)]


def all_reduces(computes_ns: Sequence[int]) -> list[Program]:
    """Ranks that compute, all-reduce and compute a little."""
    programs = [Program() for _ in computes_ns]
    for program, compute_ns in zip(programs, computes_ns, strict=True):
        program.kernel(compute_ns, stream=3)
        program.nccl(op(NcclOpKind.ALL_REDUCE, 0)).kernel(50, stream=3)
    return programs


def test_the_rank_that_came_last(tmp_path: Path) -> None:
    """The path leaves the rank at whose end it began for the one that the others waited for."""
    data = played_run(tmp_path / "a.phr", all_reduces([300, 900, 400]))
    assert path_of(data) == [(1, "k1", 900), (0, COMMUNICATION, 1000), (0, "k2", 50)]


def test_an_operation_without_the_part_of_who_came_last(tmp_path: Path) -> None:
    """The file is refused."""
    data = played_run(tmp_path / "a.phr", all_reduces([300, 900, 400]))
    parts = (data.spans["kind"] == COMMUNICATION_SPAN) & (data.spans["rank"] == 1)
    data.spans["id"][parts] += 1
    with pytest.raises(UsageError, match=r"a\.phr is damaged: .*rank 1 came last to operation"):
        path_of(data)


@pytest.mark.timeout(60)
def test_a_host_that_waits_for_what_it_did_later(tmp_path: Path) -> None:
    """The file is refused: the way back came to the same wait again, for ever."""
    program = Program().kernel(1000, gap=5).wait(WaitKind.STREAM, stream=2).kernel(300, gap=200)
    data = played_run(tmp_path / "a.phr", [program])
    awaited = np.flatnonzero(data.spans["kind"] == KERNEL_SPAN)[0]
    for name in ("issue_ns", "start_ns"):
        data.spans[name][awaited] = data.spans["end_ns"][awaited]
    with pytest.raises(UsageError, match=r"a\.phr is damaged: .*waited for itself"):
        path_of(data)


def test_ranks_that_come_at_once(tmp_path: Path) -> None:
    """The path stays where it is, and no other rank needs to be read."""
    data = played_run(tmp_path / "a.phr", all_reduces([900, 900]))
    assert path_of(data) == [(0, "k1", 900), (0, COMMUNICATION, 1000), (0, "k2", 50)]


def test_sends_of_one_launch(tmp_path: Path) -> None:
    """A launch of several operations ends with the last of them, and that is on the path."""
    programs = []
    for peer in (1, 0):
        pair = [op(kind, 0, root=peer) for kind in (NcclOpKind.SEND, NcclOpKind.RECV)]
        programs.append(Program().nccl(*pair, gap=10).kernel(50, stream=3))
    lasts_ns = {0: 2000, 1: 500}
    data = played_run(tmp_path / "a.phr", programs, lambda ready: lasts_ns[ready.operation])
    assert path_of(data) == [(0, HOST, 10), (0, COMMUNICATION, 2000), (0, "k1", 50)]


def test_a_copy_engine_that_is_busy(tmp_path: Path) -> None:
    """What was free to begin waited for the engine; which copy held it is not followed."""
    program = Program().copy(1000, CopyKind.HOST_TO_DEVICE, stream=2, gap=5)
    program.copy(90, CopyKind.HOST_TO_DEVICE, stream=3)
    found = path_of(played_run(tmp_path / "a.phr", [program]))
    assert found == [(0, HOST, 5), (0, WAITING, 1010), (0, "copies", 100)]


def test_waits_outside_the_devices(tmp_path: Path) -> None:
    """Of a host's time, what it waited for others outside is waiting."""
    program = Program().do(RecordKind.STREAM_CREATE, stream=9, gap=800).kernel(100, gap=200)
    data = played_run(tmp_path / "a.phr", [program], outside_ns=[(300, 450), (500, 700)])
    assert path_of(data) == [
        *((0, HOST, 300), (0, WAITING, 150), (0, HOST, 50), (0, WAITING, 200), (0, HOST, 300)),
        (0, "k1", 100),
    ]


def test_a_window_cuts(tmp_path: Path) -> None:
    """What crosses a window's begin counts from there on."""
    program = Program().kernel(1000).kernel(300)
    data = played_run(tmp_path / "a.phr", [program])
    assert path_of(data, Window(400, 1300, 1)) == [(0, "k1", 600), (0, "k2", 300)]


@pytest.mark.parametrize("seed", range(8))
def test_every_instant_is_on_the_path_once(tmp_path: Path, seed: int) -> None:
    """Random programs, of events, waits, copies and collectives."""
    programs = [Program() for _ in range(3)]
    rng = random.Random(seed)
    for sequence in range(12):
        for program in programs:
            for _ in range(rng.randint(0, 4)):
                stream = rng.randint(0, 3)
                program.kernel(
                    rng.randint(1, 900), stream, rng.choice([0.2, 1]), rng.randint(0, 99)
                )
                if rng.random() < 0.5:
                    program.stream_wait(program.record(stream=stream), rng.randint(0, 3))
                if rng.random() < 0.2:
                    program.copy(rng.randint(1, 900), CopyKind.DEVICE_TO_HOST, rng.randint(0, 3))
            program.nccl(op(NcclOpKind.ALL_REDUCE, sequence))
            if rng.random() < 0.4:
                program.wait(WaitKind.DEVICE, gap=7)
    data = played_run(tmp_path / "a.phr", programs)
    assert {rank for rank, _, _ in path_of(data)} <= {0, 1, 2}
