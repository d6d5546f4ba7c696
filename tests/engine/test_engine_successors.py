"""A process of a rank that follows another: it is the same rank, and nobody waits for it twice."""

import pytest
from engine_harness import cell, make_engine

from sim_server._engine import Answer, Engine
from sim_server.records import RecordKind, ReplyStatus, StreamFlags, WaitFlags, WaitKind

OLD_SLOT, ALARM_SLOT, SLOT = 3, 4, 6


def wait(kind: WaitKind, slot: int, flags: int = 0, event: int = 0) -> bytes:
    return cell(RecordKind.WAIT, event, 0, 0, 0, slot, id=int(kind), flags=int(flags))


def answers(engine: Engine) -> list[tuple[int, int, int, int]]:
    """Rank, slot, status and time of those that are answered now."""
    told: list[Answer] = engine.advance(None, True).answers
    return [(one.rank, one.slot, one.status, one.time_ns) for one in told]


def test_what_the_one_before_waited_for() -> None:
    """It is told first, and its alarms do not ring; the next begins at the simulation's time."""
    engine = make_engine(2)
    stream = cell(RecordKind.STREAM_CREATE, stream=2, flags=int(StreamFlags.NON_BLOCKING))
    engine.feed(0, stream + wait(WaitKind.ALARM, ALARM_SLOT, WaitFlags.BACKGROUND, event=200), 0)
    engine.feed(0, wait(WaitKind.STREAM, OLD_SLOT, WaitFlags.BACKGROUND), 0)
    engine.feed(1, wait(WaitKind.RESUME, SLOT), 0)
    engine.set_aside(0)
    engine.advance(None, True)
    engine.feed(1, b"", 500)
    engine.feed(0, wait(WaitKind.RESUME, SLOT, WaitFlags.SUCCEEDS), 0)
    told = [one[:3] for one in answers(engine) if one[0] == 0]
    assert (0, SLOT, ReplyStatus.DONE) in told
    assert ALARM_SLOT not in {slot for _, slot, _ in told}
    assert engine.alarmed_ranks() == []
    engine.feed(0, wait(WaitKind.STREAM, OLD_SLOT), 600)


def test_it_cannot_have_waited_for_a_communicator() -> None:
    """A process that has ended well has joined those that it began to join."""
    engine = make_engine()
    joins = cell(RecordKind.WAIT, 1, 2, 0, 0, OLD_SLOT, id=int(WaitKind.COMM_INIT))
    engine.feed(0, joins, 0)
    with pytest.raises(ValueError, match="waits for a communicator"):
        engine.feed(0, wait(WaitKind.RESUME, SLOT, WaitFlags.SUCCEEDS), 0)
