"""Acts outside the GPU happen in the order of virtual time, and set ranks going that were aside."""

from engine_harness import cell, make_engine

from sim_server._engine import Answer, Engine
from sim_server.records import (
    CopyKind,
    RecordKind,
    ReplyStatus,
    StreamFlags,
    WaitFlags,
    WaitKind,
)

SLOT = 6


def act(engine: Engine, rank: int, clock_ns: int, gap_ns: int = 0, *, helper: bool = False) -> None:
    """A rank asks for its turn; `gap_ns`: since its last record."""
    flags = int(WaitFlags.BACKGROUND) if helper else 0
    wait = cell(
        RecordKind.WAIT, 0, 0, 0, 0, SLOT, id=int(WaitKind.OUTSIDE), host_gap_ns=gap_ns, flags=flags
    )
    engine.feed(rank, wait, clock_ns)


def resume(engine: Engine, rank: int, clock_ns: int, gap_ns: int = 0) -> None:
    wait = cell(RecordKind.WAIT, 0, 0, 0, 0, SLOT, id=int(WaitKind.RESUME), host_gap_ns=gap_ns)
    engine.feed(rank, wait, clock_ns)


def issue_copy(engine: Engine, rank: int) -> int:
    """Work of the rank's stream 2 and event 1 after it; when it will be done."""
    stream = cell(RecordKind.STREAM_CREATE, stream=2, flags=int(StreamFlags.NON_BLOCKING))
    copy = cell(RecordKind.COPY, 90, stream=2, id=int(CopyKind.HOST_TO_DEVICE))
    engine.feed(rank, stream + copy + cell(RecordKind.EVENT_RECORD, 1, stream=2), 0)
    return 10 + 90


def wait_as_helper(engine: Engine, rank: int) -> None:
    engine.feed(rank, helper_wait(WaitKind.EVENT, 1), 0)


def withdraw(engine: Engine, rank: int) -> None:
    engine.feed(rank, helper_wait(WaitKind.WITHDRAW, 0), 0)


def helper_wait(kind: WaitKind, event: int) -> bytes:
    flags = int(WaitFlags.BACKGROUND)
    return cell(RecordKind.WAIT, event, 0, 0, 0, SLOT, id=int(kind), flags=flags)


def answers(engine: Engine) -> list[tuple[int, int]]:
    """Rank and time of those that are answered now."""
    told: list[Answer] = engine.advance(None, True).answers
    return [(answer.rank, answer.time_ns) for answer in told]


def test_a_rank_acts_when_the_simulation_has_got_there() -> None:
    """Not before a rank whose clock is behind, which may act earlier."""
    engine = make_engine(2)
    act(engine, 0, 50, gap_ns=50)
    engine.feed(1, b"", 49)
    assert answers(engine) == []
    engine.feed(1, b"", 50)
    assert answers(engine) == [(0, 50)]


def test_ranks_act_one_by_one_at_one_time() -> None:
    """In the order of ranks, each when the one before has left that time."""
    engine = make_engine(3)
    for rank in (2, 1, 0):
        act(engine, rank, 50, gap_ns=50)
    assert answers(engine) == [(0, 50)]
    assert answers(engine) == []
    engine.feed(0, b"", 51)
    assert answers(engine) == [(1, 50)]
    engine.set_aside(1)
    assert answers(engine) == [(2, 50)]


def test_an_act_wakes_those_that_are_aside() -> None:
    """They hold the simulation at its time until they resume, exactly then, or are set aside."""
    engine = make_engine(3)
    engine.feed(0, b"", 7)
    engine.set_aside(0)
    engine.set_aside(2)
    act(engine, 1, 50, gap_ns=50)
    assert answers(engine) == [(1, 50)]
    assert (engine.outside_ranks(), engine.running_ranks()) == ([], [0, 1, 2])
    engine.feed(1, b"", 900)
    assert answers(engine) == []
    assert (engine.time_ns, engine.bound()) == (50, 50)
    resume(engine, 0, 7, gap_ns=7)
    assert answers(engine) == [(0, 50)]
    assert engine.bound() == 50
    engine.set_aside(2)
    engine.feed(0, b"", 60)
    assert (answers(engine), engine.bound()) == ([], 60)


def test_a_rank_that_resumes_goes_on_from_its_own_clock_if_that_is_later() -> None:
    """Being woken moves no clock."""
    engine = make_engine(2)
    engine.feed(0, b"", 70)
    engine.set_aside(0)
    act(engine, 1, 50, gap_ns=50)
    assert answers(engine) == [(1, 50)]
    resume(engine, 0, 70, gap_ns=70)
    assert answers(engine) == []
    engine.feed(1, b"", 71)
    assert answers(engine) == [(0, 70)]


def test_a_helper_s_act_is_not_held_up_by_its_own_rank() -> None:
    """Its rank may be at that very time, waiting for what the helper is about to do."""
    engine = make_engine(2)
    act(engine, 0, 50, helper=True, gap_ns=50)
    engine.feed(1, b"", 49)
    assert (answers(engine), engine.helper_waits()) == ([], 1)
    engine.feed(1, b"", 50)
    assert answers(engine) == [(0, 50)]
    assert (engine.helper_waits(), engine.running_ranks()) == (0, [0, 1])


def test_a_helper_s_act_is_not_held_up_by_what_its_rank_has_issued() -> None:
    """That happens once no rank is left at its time; and the rank, found at work because a thread
    spins on a lock that the helper holds, may be.
    """
    engine = make_engine(2)
    stream = cell(RecordKind.STREAM_CREATE, stream=2)
    issued = cell(RecordKind.EVENT_RECORD, 1, stream=2, host_gap_ns=50)
    engine.feed(0, stream + issued, 50)
    act(engine, 0, 50, helper=True)
    assert answers(engine) == []
    engine.feed(1, b"", 60)
    assert answers(engine) == [(0, 50)]
    assert (engine.time_ns, engine.running_ranks()) == (50, [0, 1])


def test_a_helper_s_act_in_a_rank_that_is_aside_happens_now() -> None:
    """It brings the rank back no more than any other act does: its clock stands."""
    engine = make_engine(2)
    engine.feed(0, b"", 10)
    engine.set_aside(0)
    engine.feed(1, b"", 500)
    assert answers(engine) == []
    act(engine, 0, 10, helper=True)
    assert answers(engine) == [(0, 500)]
    resume(engine, 0, 10, gap_ns=10)
    engine.exited(1)
    assert answers(engine) == [(0, 500)]


def test_what_a_helper_has_waited_for_wakes_its_rank() -> None:
    """At that time, for the helper may set its driver going; ranks that are aside stay so."""
    engine = make_engine(2)
    work_ns = issue_copy(engine, 0)
    wait_as_helper(engine, 0)
    assert (answers(engine), engine.helper_waits(), engine.running_ranks()) == ([], 1, [0, 1])
    engine.set_aside(1)
    wakeups = engine.wakeups()
    engine.set_aside(0)
    assert answers(engine) == [(0, work_ns)]
    assert (engine.helper_waits(), engine.outside_ranks(), engine.bound()) == (0, [1], work_ns)
    assert engine.wakeups() == wakeups + 1
    resume(engine, 0, 0)
    assert answers(engine) == [(0, work_ns)]


def test_a_helper_may_stop_waiting() -> None:
    """Then what it waited for wakes nobody. One that has been answered may do so in vain."""
    engine = make_engine()
    issue_copy(engine, 0)
    wait_as_helper(engine, 0)
    withdraw(engine, 0)
    (answer,) = engine.advance(None, True).answers
    assert (answer.status, engine.helper_waits()) == (ReplyStatus.NOT_READY, 0)
    withdraw(engine, 0)
    engine.set_aside(0)
    assert (answers(engine), engine.outside_ranks()) == ([], [0])


def test_the_end_of_a_rank_wakes_those_that_are_aside() -> None:
    """Connections and locks end with a process."""
    engine = make_engine(2)
    engine.set_aside(0)
    wakeups = engine.wakeups()
    engine.exited(1)
    assert (engine.running_ranks(), engine.outside_ranks()) == ([0], [])
    assert engine.wakeups() > wakeups


def test_what_may_set_a_rank_going_is_counted() -> None:
    """Acts and answers to drivers, and not what helpers are told."""
    engine = make_engine(2)
    query = cell(
        RecordKind.WAIT,
        *(0, 0, 0, 0, SLOT),
        id=int(WaitKind.QUERY_EVENT),
        flags=int(WaitFlags.BACKGROUND),
    )
    engine.feed(0, query, 0)
    assert (answers(engine), engine.wakeups()) == ([(0, 0)], 0)
    act(engine, 1, 5, helper=True, gap_ns=5)
    engine.feed(0, b"", 5)
    answers(engine)
    acted = engine.wakeups()
    assert acted > 0
    resume(engine, 0, 5, gap_ns=5)
    assert (answers(engine), engine.wakeups()) == ([(0, 5)], acted + 1)


def test_turns_leave_no_trace() -> None:
    """That a rank was set aside for a moment is not in the history: it differs from run to run."""
    engine = make_engine(1)
    act(engine, 0, 5, gap_ns=5)
    answers(engine)
    resume(engine, 0, 5)
    answers(engine)
    assert len(engine.take_spans()) == 0
