"""A rank learns when work that it has numbered ran: what ended, once, and exactly."""

from __future__ import annotations

import struct
from typing import NamedTuple

from engine_harness import Program, make_engine, op

from sim_server.records import CopyKind, NcclOpKind, RecordKind, WaitFlags, WaitKind

AT_ONCE = 512  # kActivitiesAtOnce in csrc/protocol/records.h


class Told(NamedTuple):
    """An answer: the times in it, how many are left, when it was given."""

    times: list[tuple[int, int, int]]
    left: int
    time_ns: int


def run(program: Program, operation_ns: int = 700) -> tuple[list[Told], list[tuple[int, ...]]]:
    """The answers to questions for times, in order, and the spans of a rank that is alone."""
    engine = make_engine()
    engine.define_communicator(1, [0])
    told = []
    clock_ns = 0
    for step, gap_ns, asks in program.steps:
        clock_ns += gap_ns
        for heard in engine.feed(0, step, clock_ns):
            if heard.id in program.timings:
                engine.set_duration(0, heard.id, *program.timings[heard.id], heard.id)
        unanswered = asks
        while unanswered:
            stop = engine.advance(None, True)
            for ready in stop.ready:
                engine.finish(ready.operation, [ready.time_ns + operation_ns])
            for answer in stop.answers:
                unanswered = False
                clock_ns = max(clock_ns, answer.time_ns)
                if answer.kind == WaitKind.ACTIVITIES:
                    times = list(struct.iter_unpack("<Qqq", answer.payload))
                    told.append(Told(times, answer.value, answer.time_ns))
    rows = [tuple(map(int, (row["start_ns"], row["end_ns"]))) for row in engine.take_spans()]
    return told, rows


def kernel(program: Program, duration_ns: int, activity: int, stream: int = 2) -> None:
    program.kernel(duration_ns, stream=stream)
    program.steps.pop()  # the same again, with a number
    program.do(RecordKind.KERNEL, stream=stream, id=len(program.timings), activity=activity)


def test_every_kind_of_work_is_told() -> None:
    """Kernels, copies, fills and launches of NCCL, in the order of their ends, as the spans are."""
    program = Program()
    kernel(program, 100, activity=11)
    program.do(RecordKind.COPY, stream=2, id=int(CopyKind.HOST_TO_DEVICE), bytes=90, activity=12)
    program.do(RecordKind.FILL, stream=2, bytes=200, activity=13)
    program.nccl(op(NcclOpKind.ALL_REDUCE, 0), stream=2)
    launch, gap_ns, asks = program.steps.pop()
    numbered = bytearray(launch)
    struct.pack_into("<Q", numbered, 24 + 4 * 8, 14)
    program.steps.append((bytes(numbered), gap_ns, asks))
    program.wait(WaitKind.DEVICE).wait(WaitKind.ACTIVITIES)
    (told,), spans = run(program)
    assert told.times == [(11, 0, 100), (12, 100, 200), (13, 200, 300), (14, 300, 1000)]
    assert told.left == 0
    assert sorted(spans)[: len(told.times)] == [(0, 100), (0, 1000), (100, 200), (200, 300)]


def test_only_numbered_work_is_told_and_only_once() -> None:
    """What the rank gave no number nobody asks about; a second question brings what is new."""
    program = Program().kernel(50)
    kernel(program, 100, activity=1)
    program.wait(WaitKind.DEVICE).wait(WaitKind.ACTIVITIES)
    kernel(program, 30, activity=2)
    program.wait(WaitKind.DEVICE).wait(WaitKind.ACTIVITIES).wait(WaitKind.ACTIVITIES)
    told, _ = run(program)
    assert [one.times for one in told] == [[(1, 50, 150)], [(2, 150, 180)], []]


def test_a_question_does_not_wait() -> None:
    """It is answered at the rank's clock, with what has ended by then."""
    program = Program()
    kernel(program, 100, activity=1)
    kernel(program, 100, activity=2)
    program.wait(WaitKind.ACTIVITIES, gap=100)
    program.wait(WaitKind.ACTIVITIES, gap=99).wait(WaitKind.ACTIVITIES, gap=1)
    told, _ = run(program)
    assert [one.time_ns for one in told] == [100, 199, 200]
    assert [one.times for one in told] == [[(1, 0, 100)], [], [(2, 100, 200)]]


def test_answers_are_bounded() -> None:
    """One holds as much as fits a reply; `value` says that there is more."""
    program = Program()
    for number in range(1, AT_ONCE + 4):
        kernel(program, 10, activity=number)
    program.wait(WaitKind.DEVICE).wait(WaitKind.ACTIVITIES).wait(WaitKind.ACTIVITIES)
    (first, second), _ = run(program)
    assert (len(first.times), first.left) == (AT_ONCE, 3)
    assert (len(second.times), second.left) == (3, 0)
    assert [one[0] for one in first.times + second.times] == list(range(1, AT_ONCE + 4))


def test_a_helper_is_told_at_once() -> None:
    """A question in the background holds nothing up, and takes what is known."""
    program = Program()
    kernel(program, 100, activity=1)
    program.wait(WaitKind.DEVICE)
    program.wait(WaitKind.ACTIVITIES, slot=3, flags=int(WaitFlags.BACKGROUND))
    program.wait(WaitKind.ACTIVITIES)
    told, _ = run(program)
    assert [one.times for one in told] == [[(1, 0, 100)], []]
