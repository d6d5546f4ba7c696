"""A thread's deadline comes when nobody can end its wait before any more, and then at once."""

from engine_harness import Program, cell, make_engine

from sim_server._engine import Answer, Engine
from sim_server.records import RecordKind, WaitFlags, WaitKind

SLOT, ALARM_SLOT = 6, 15


def set_alarm(engine: Engine, rank: int, deadline_ns: int, *, withdrawn: bool = False) -> None:
    wait = cell(
        *(RecordKind.WAIT, deadline_ns, int(withdrawn), 0, 0, ALARM_SLOT),
        id=int(WaitKind.ALARM),
        flags=int(WaitFlags.BACKGROUND),
    )
    engine.feed(rank, wait, 0)


def wait(engine: Engine, rank: int, kind: WaitKind, clock_ns: int, gap_ns: int = 0) -> None:
    record = cell(RecordKind.WAIT, 0, 0, 0, 0, SLOT, id=int(kind), host_gap_ns=gap_ns)
    engine.feed(rank, record, clock_ns)


def sleep(engine: Engine, rank: int, duration_ns: int) -> None:
    wait(engine, rank, WaitKind.RESUME, 0, duration_ns)


def answers(engine: Engine) -> list[tuple[int, int, int]]:
    """Rank, slot and time of those that are answered now."""
    told: list[Answer] = engine.advance(None, True).answers
    return [(answer.rank, answer.slot, answer.time_ns) for answer in told]


def test_an_alarm_rings_when_its_rank_is_found_still() -> None:
    """A rank that runs may yet withdraw it. Then the rank runs, from the deadline on."""
    engine = make_engine()
    set_alarm(engine, 0, 60)
    assert (answers(engine), engine.alarmed_ranks(), engine.time_ns) == ([], [0], 0)
    engine.set_aside(0, proven=True)
    assert answers(engine) == [(0, ALARM_SLOT, 60)]
    assert (engine.running_ranks(), engine.bound(), engine.alarmed_ranks()) == ([0], 60, [])
    wait(engine, 0, WaitKind.RESUME, 0)
    assert answers(engine) == [(0, SLOT, 60)]


def test_a_guess_is_no_proof() -> None:
    """A child process may be about to end the wait; the rank constrains nobody all the same."""
    engine = make_engine(2)
    set_alarm(engine, 0, 60)
    engine.set_aside(0)
    sleep(engine, 1, 100)
    assert answers(engine) == [(1, SLOT, 100)]
    assert engine.unproven_ranks() == [0]
    engine.exited(1)
    engine.set_aside(0, proven=True)
    assert answers(engine) == [(0, ALARM_SLOT, 100)]


def test_an_alarm_that_was_withdrawn_does_not_ring() -> None:
    """And one of two that are equal is left."""
    engine = make_engine()
    for withdrawn in (False, False, True):
        set_alarm(engine, 0, 60, withdrawn=withdrawn)
    engine.set_aside(0, proven=True)
    assert answers(engine) == [(0, ALARM_SLOT, 60)]
    set_alarm(engine, 0, 60, withdrawn=True)  # in vain
    engine.set_aside(0, proven=True)
    assert (answers(engine), engine.alarmed_ranks()) == ([], [])


def test_a_rank_that_may_act_before_holds_an_alarm_up() -> None:
    """Up to its own clock, and at the deadline itself: its message may be just in time."""
    engine = make_engine(2)
    set_alarm(engine, 0, 60)
    engine.set_aside(0, proven=True)
    engine.feed(1, b"", 60)
    assert answers(engine) == []
    engine.feed(1, b"", 61)
    assert answers(engine) == [(0, ALARM_SLOT, 60)]


def test_an_act_before_the_deadline_lets_the_rank_go_on_first() -> None:
    """It withdraws its alarm, or is found still again."""
    for withdrawn in (True, False):
        engine = make_engine(2)
        set_alarm(engine, 0, 60)
        engine.set_aside(0, proven=True)
        wait(engine, 1, WaitKind.OUTSIDE, 50, 50)
        assert answers(engine) == [(1, SLOT, 50)]
        engine.feed(1, b"", 1000)
        assert answers(engine) == []
        if withdrawn:
            set_alarm(engine, 0, 60, withdrawn=True)
        engine.set_aside(0, proven=True)
        assert answers(engine) == ([] if withdrawn else [(0, ALARM_SLOT, 60)])


def test_helpers_go_on_before_the_rank_that_sleeps() -> None:
    """What they do when their deadline comes, they do at that time."""
    engine = make_engine()
    set_alarm(engine, 0, 30)
    sleep(engine, 0, 100)
    assert answers(engine) == [(0, ALARM_SLOT, 30)]
    assert (engine.running_ranks(), engine.waiting_ranks(), engine.bound()) == ([0], [0], 30)
    assert answers(engine) == []
    set_alarm(engine, 0, 60)
    engine.set_aside(0, proven=True)
    assert answers(engine) == [(0, ALARM_SLOT, 60)]
    engine.set_aside(0, proven=True)
    assert answers(engine) == [(0, SLOT, 100)]
    assert (engine.running_ranks(), engine.outside_ranks(), engine.bound()) == ([0], [], 100)


def test_a_helper_may_issue_work_while_its_rank_waits() -> None:
    """It is carried out at the alarm's time."""
    engine = make_engine()
    program = Program().kernel(20).wait(WaitKind.STREAM, stream=2)
    late = Program(streams=0, timings=dict(program.timings)).kernel(5, stream=3)
    for step, _, _ in program.steps:
        for heard in engine.feed(0, step, 0):
            if heard.kind == RecordKind.SIGNATURE:
                engine.set_duration(0, heard.id, 20, 1.0, 0)
    set_alarm(engine, 0, 10)
    assert answers(engine) == [(0, ALARM_SLOT, 10)]
    for step, _, _ in late.steps:
        for heard in engine.feed(0, step, 0):
            if heard.kind == RecordKind.SIGNATURE:
                engine.set_duration(0, heard.id, 5, 1.0, 0)
    engine.set_aside(0, proven=True)
    answers(engine)
    engine.advance(None, True)
    starts = sorted(span["start_ns"] for span in engine.take_spans() if span["kind"] == 1)
    assert starts == [0, 10]


def test_alarms_do_not_keep_a_deadlock_going_for_ever() -> None:
    """Threads that look after something now and then set one after the other."""
    engine = make_engine()
    wait(engine, 0, WaitKind.COMM_INIT, 0)
    for turn in range(1, 1001):
        set_alarm(engine, 0, 5 * turn)
        stop = engine.advance(None, True)
        while stop.requests:
            stop = engine.advance(None, True)
        assert [answer.time_ns for answer in stop.answers] == [5 * turn]
        engine.set_aside(0, proven=True)
    set_alarm(engine, 0, 9000)
    assert (answers(engine), engine.running_ranks(), engine.outside_ranks()) == ([], [], [])
