"""A rank that was set aside while it waited for values comes back at the time of their sending."""

import pytest
from engine_harness import make_engine, op

from sim_server._engine import Engine, MalformedInput
from sim_server.records import NcclOpKind, RecordKind, StreamFlags, WaitKind
from sim_server.records.schema import NcclLaunchFlags
from sim_server.records.writer import record, wait

ASKED_NS, SENT_NS, LATER_NS = 7, 50, 900


def make_pair(*, aside: bool = True) -> Engine:
    """Rank 0 waits for values of rank 1."""
    engine = make_engine(2)
    engine.define_communicator(1, [0, 1])
    stream = record(RecordKind.STREAM_CREATE, stream=2, flags=int(StreamFlags.NON_BLOCKING))
    engine.feed(1, stream, 0)
    engine.feed(0, b"", ASKED_NS)
    if aside:
        engine.set_aside(0, awaits_values=True)
    return engine


def send(engine: Engine, number: int = 0, *, flags: int = NcclLaunchFlags.SENDS_VALUES) -> None:
    """Rank 1 does, for the first time at SENT_NS, and goes on at once."""
    launch = record(
        RecordKind.NCCL_LAUNCH,
        stream=2,
        operations=1,
        host_gap_ns=LATER_NS if number else SENT_NS,
        flags=int(flags),
    )
    clock_ns = LATER_NS * (number + 1)
    engine.feed(1, launch + op(NcclOpKind.ALL_REDUCE, number), clock_ns)


def resume(engine: Engine, values_ns: int = SENT_NS) -> None:
    engine.feed(0, wait(WaitKind.RESUME, host_gap_ns=ASKED_NS, values_ns=values_ns), ASKED_NS)


def answers(engine: Engine) -> list[tuple[int, int]]:
    """Rank and time of those that are answered now."""
    return [(answer.rank, answer.time_ns) for answer in engine.advance(None, True).answers]


@pytest.mark.parametrize("arrives_at_once", [False, True])
def test_when_values_arrive_does_not_matter(arrives_at_once: bool) -> None:
    """Before the simulation has got to their sending, or when it stands there."""
    engine = make_pair()
    if not arrives_at_once:
        send(engine)
        assert answers(engine) == []
        assert (engine.running_ranks(), engine.bound()) == ([0, 1], SENT_NS)
        resume(engine)
    else:
        resume(engine)
        assert answers(engine) == []
        send(engine)
    assert answers(engine) == [(0, SENT_NS)]


def test_a_rank_that_is_found_asleep_again_waits_for_the_next_values() -> None:
    """Those were not for it, or not all."""
    engine = make_pair()
    send(engine)
    answers(engine)
    engine.set_aside(0, awaits_values=True)
    assert (engine.running_ranks(), engine.bound()) == ([1], LATER_NS)
    send(engine, 1)
    answers(engine)
    assert (engine.running_ranks(), engine.bound()) == ([0, 1], SENT_NS + LATER_NS)


def test_only_values_wake_who_awaits_values() -> None:
    """Gradients need no look at who sleeps; nor does a launch wake who waits for a store."""
    engine = make_pair()
    send(engine, flags=0)
    answers(engine)
    assert engine.running_ranks() == [1]
    engine = make_pair()
    engine.set_aside(0)
    send(engine)
    answers(engine)
    assert engine.running_ranks() == [1]


def test_values_take_no_time_where_nobody_was_set_aside() -> None:
    """They may come from a rank that is ahead."""
    engine = make_pair(aside=False)
    send(engine)
    resume(engine)
    assert answers(engine) == [(0, ASKED_NS)]


def test_values_come_within_the_run() -> None:
    """A time that cannot be is refused."""
    with pytest.raises(MalformedInput, match="values are out of range"):
        resume(make_pair(), 1 << 62)
