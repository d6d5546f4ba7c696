"""What answers tell about events (EventNews of records.h) is true: ranks rely on it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from engine_harness import Program, make_engine, op

from sim_server.records import CopyKind, NcclOpKind, ReplyStatus, WaitKind


class News(NamedTuple):
    """As in the header, and when it was told."""

    told_ns: int
    stream: int
    device: int
    done: int
    pending: int
    not_before_ns: int


class Told(NamedTuple):
    """An answer: status, time, value, news."""

    status: int
    time_ns: int
    value: int
    news: list[News]


def run(program: Program, operation_ns: int = 700) -> Iterator[Told]:
    """The answers to a rank that is alone, in order."""
    engine = make_engine()
    engine.define_communicator(1, [0])
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
                rows = struct.iter_unpack("<IIQQQ", answer.payload)
                news = [News(answer.time_ns, *row) for row in rows]
                yield Told(answer.status, answer.time_ns, answer.value, news)


def test_the_next_event_of_every_stream_is_told() -> None:
    """With the work that is left before it, at full speed, as the least time until it is done."""
    program = Program()
    first = program.kernel(100, stream=2, demand=0.1).record(stream=2)
    second = program.kernel(300, stream=2).record(stream=2)
    program.stream_wait(second, stream=3)
    third = program.kernel(50, stream=3).record(stream=3)
    program.wait(WaitKind.EVENT, instance=first)
    program.wait(WaitKind.STREAM, stream=3)
    before, after = run(program)
    assert before.news == [News(100, 2, 0, first, second, 400), News(100, 3, 0, 0, third, 450)]
    assert after.news == [News(450, 2, 0, second, 0, 0), News(450, 3, 0, third, 0, 0)]


def test_the_event_that_was_asked_about_is_told_too() -> None:
    """Besides the stream's next one."""
    program = Program()
    first = program.kernel(100).record()
    second = program.kernel(100).record()
    program.wait(WaitKind.QUERY_EVENT, instance=second, gap=10)
    (told,) = run(program)
    assert told.status == ReplyStatus.NOT_READY
    assert [(news.pending, news.not_before_ns) for news in told.news] == [
        (first, 100),
        (second, 200),
    ]


def random_program(chance: random.Random) -> tuple[Program, int]:
    """Work on three streams with many queries; how many events; the first is done at 0."""
    program = Program()
    events = [program.record(stream=2)]
    program.wait(WaitKind.EVENT, instance=events[0])
    operations = 0
    for _ in range(120):
        stream = chance.randint(1, 3)
        match chance.randrange(7):
            case 0 | 1:
                program.kernel(
                    chance.randint(1, 400),
                    stream,
                    chance.uniform(0.05, 1),
                    gap=chance.randint(0, 90),
                )
            case 2:
                program.copy(chance.randint(1, 300), chance.choice(list(CopyKind)), stream)
            case 3:
                program.nccl(op(NcclOpKind.ALL_REDUCE, operations), stream=stream)
                operations += 1
            case 4:
                program.stream_wait(chance.choice(events), stream)
            case 5:
                events.append(program.record(stream=stream))
            case _:
                program.wait(
                    WaitKind.QUERY_EVENT, instance=chance.choice(events), gap=chance.randint(1, 200)
                )
    program.wait(WaitKind.DEVICE)
    for event in events:
        program.wait(WaitKind.ELAPSED, first=events[0], second=event)
    return program, len(events)


@pytest.mark.parametrize("seed", range(60))
def test_news_is_true(seed: int) -> None:
    """What is told as done was done then, and no event is done before the time that was told."""
    program, events = random_program(random.Random(seed))
    told = list(run(program))
    done_ns = {event: told[event - 1 - events].value for event in range(1, events + 1)}
    for news in (news for one in told for news in one.news):
        assert news.done == 0 or done_ns[news.done] <= news.told_ns
        assert news.pending == 0 or done_ns[news.pending] >= news.not_before_ns
