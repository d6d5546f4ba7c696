"""Ranks are answered truthfully for their own clocks, and hold up time only while they run."""

from engine_harness import Program, cell, make_engine, op, play

from sim_server._engine import Engine
from sim_server.records import EventFlags, NcclOpKind, RecordKind, ReplyStatus, WaitFlags, WaitKind
from sim_server.records.writer import announcement

NOT_READY = int(ReplyStatus.NOT_READY)


def feed(engine: Engine, program: Program, rank: int = 0, clock_ns: int = 0) -> None:
    """All steps of a program that has not been fed yet."""
    cells = b"".join(step for step, _, _ in program.steps)
    program.steps.clear()
    for heard in engine.feed(rank, cells, clock_ns):
        if heard.kind == RecordKind.SIGNATURE:
            engine.set_duration(rank, heard.id, *program.timings[heard.id], heard.id)


def test_a_synchronisation_ends_with_its_work() -> None:
    """Stream, event and device waits are answered at the end of what they cover, or at once."""
    program = Program().kernel(100, stream=2, demand=0.1)
    event = program.record(stream=2)
    program.kernel(300, stream=2, demand=0.1).kernel(500, stream=3, demand=0.1)
    program.wait(WaitKind.EVENT, instance=event)
    program.wait(WaitKind.STREAM, stream=2)
    program.wait(WaitKind.DEVICE)
    program.wait(WaitKind.EVENT, instance=0, gap=50)
    history = play([program])
    assert [time_ns for _, _, time_ns, _ in history.answers] == [100, 400, 500, 550]
    assert history.rows(5) == [(0, 100), (100, 400), (400, 500), (550, 550)]


def test_the_host_clock_jumps_to_the_answer() -> None:
    """What is issued after a wait counts from the wait's end."""
    program = Program().kernel(100).wait(WaitKind.STREAM, stream=2).kernel(10, gap=7)
    assert play([program]).kernels == [(0, 100), (107, 117)]


def test_synchronising_the_legacy_stream_covers_blocking_streams() -> None:
    """An action on the legacy stream waits for the blocking streams, not for the others."""
    program = Program().kernel(100, stream=1, demand=0.1).kernel(300, stream=2, demand=0.1)
    program.wait(WaitKind.STREAM, stream=0)
    assert play([program]).answers == [(0, 0, 100, 0)]


def test_a_query_is_answered_for_the_time_at_which_it_is_asked() -> None:
    """Not ready one nanosecond before the end, ready at it; asking moves no clock."""
    program = Program().kernel(100)
    event = program.record()
    program.wait(WaitKind.QUERY_EVENT, instance=event, gap=99)
    program.wait(WaitKind.QUERY_STREAM, stream=2, gap=0)
    program.wait(WaitKind.QUERY_EVENT, instance=event, gap=1)
    assert play([program]).answers == [(0, NOT_READY, 99, 0), (0, NOT_READY, 99, 0), (0, 0, 100, 0)]


def test_a_polling_loop_ends() -> None:
    """The rank pays for asking, so the work gets done between the questions."""
    engine = make_engine()
    feed(engine, Program().kernel(42))
    polls = 0
    while True:
        ask = cell(RecordKind.WAIT, id=int(WaitKind.QUERY_STREAM), stream=2, host_gap_ns=5)
        engine.feed(0, ask, 0)
        (answer,) = engine.advance(None, True).answers
        polls += 1
        if answer.status == 0:
            break
    assert (polls, answer.time_ns) == (9, 45)
    assert engine.take_spans()["kind"].tolist() == [1]


def test_elapsed_time_is_the_difference_of_two_events() -> None:
    """Also backwards, as two's complement; not ready while one of them is not recorded."""
    program = Program()
    first = program.record(gap=10)
    program.kernel(100)
    second = program.record()
    program.wait(WaitKind.ELAPSED, first=first, second=second)
    program.wait(WaitKind.STREAM, stream=2)
    program.wait(WaitKind.ELAPSED, first=first, second=second)
    program.wait(WaitKind.ELAPSED, first=second, second=first)
    answers = play([program]).answers
    assert answers[0][1] == NOT_READY
    assert answers[2][3] == 100
    assert answers[3][3] == (1 << 64) - 100


def test_the_bound_is_the_least_clock_of_a_running_rank() -> None:
    """Nothing happens at or after it; waiting, exited and set-aside ranks do not count."""
    engine = make_engine(3)
    feed(engine, Program().kernel(100, gap=5).wait(WaitKind.STREAM, stream=2), rank=0)
    assert engine.bound() == 0
    engine.feed(1, b"", 70)
    assert engine.bound() == 0
    engine.feed(2, b"", 40)
    assert engine.bound() == 40
    assert engine.advance(None, True).answers == []
    assert engine.time_ns == 40
    engine.set_aside(2)
    assert (engine.bound(), engine.outside_ranks(), engine.running_ranks()) == (70, [2], [1])
    engine.feed(1, b"", 104)
    assert engine.advance(None, True).answers == []
    engine.feed(1, b"", 105)
    (answer,) = engine.advance(None, True).answers
    assert (answer.rank, answer.time_ns, engine.bound()) == (0, 105, 105)
    for rank in range(3):
        engine.exited(rank)
    assert engine.bound() is None


def test_equal_ranks_are_answered_together() -> None:
    """What ends at the bound is answered, so that no rank waits for another's next step."""
    engine = make_engine(3)
    for rank in range(3):
        program = Program().kernel(100).wait(WaitKind.STREAM, stream=2)
        feed(engine, program, rank)
    assert [answer.time_ns for answer in engine.advance(None, True).answers] == [100] * 3
    for rank in range(3):
        feed(engine, Program(streams=0).wait(WaitKind.DEVICE, gap=7), rank, clock_ns=107)
    assert [answer.time_ns for answer in engine.advance(None, True).answers] == [107] * 3
    for rank in range(3):
        feed(engine, Program(streams=0).wait(WaitKind.QUERY_STREAM, stream=1), rank)
    assert [answer.time_ns for answer in engine.advance(None, True).answers] == [107] * 3


def test_equal_ranks_that_issue_before_they_ask_are_answered_together() -> None:
    """Who asks after something issued at the same time is answered once all have issued theirs."""
    engine = make_engine(3)
    for rank in range(3):
        feed(engine, Program().kernel(100).wait(WaitKind.QUERY_STREAM, stream=2), rank)
    answers = engine.advance(None, True).answers
    assert [answer.rank for answer in answers] == [0, 1, 2]
    assert {answer.status for answer in answers} == {NOT_READY}
    # One that issues and asks again at that time waits until the others have gone on, and the
    # order stays that of ranks.
    for rank in (2, 0):
        program = Program(streams=0).kernel(10, stream=2).wait(WaitKind.QUERY_STREAM, stream=2)
        feed(engine, program, rank)
        assert engine.advance(None, True).answers == []
    feed(engine, Program(streams=0).wait(WaitKind.QUERY_STREAM, stream=2, gap=1), 1)
    assert [answer.rank for answer in engine.advance(None, True).answers] == [0, 2]


def test_a_limit_is_honoured() -> None:
    """Events at the limit happen only if it is inclusive."""
    engine = make_engine()
    feed(engine, Program().kernel(100).wait(WaitKind.STREAM, stream=2))
    assert engine.advance(100, False).answers == []
    assert (engine.time_ns, engine.next_time()) == (100, 100)
    assert len(engine.advance(100, True).answers) == 1


def test_a_rank_that_was_set_aside_resumes_at_the_engines_time() -> None:
    """It had stood still at 10 ns while the others went on to 500 ns."""
    engine = make_engine(2)
    feed(engine, Program(), rank=0, clock_ns=10)
    feed(engine, Program().kernel(500).wait(WaitKind.STREAM, stream=2), rank=1)
    engine.set_aside(0)
    assert [answer.time_ns for answer in engine.advance(None, True).answers] == [500]
    engine.exited(1)
    engine.feed(0, cell(RecordKind.WAIT, 0, 0, 0, 0, 6, id=int(WaitKind.RESUME), host_gap_ns=3), 10)
    (answer,) = engine.advance(None, True).answers
    assert (answer.rank, answer.slot, answer.time_ns) == (0, 6, 500)
    assert (engine.running_ranks(), engine.bound()) == ([0], 500)
    # Whether a rank that is slow was set aside differs from run to run and leaves no trace.
    assert [span["rank"] for span in engine.take_spans()] == [1, 1]


def test_a_rank_set_aside_while_its_answer_was_on_the_way_stays_aside() -> None:
    """The answer of its wait does not make it a constraint; only Resume does."""
    engine = make_engine()
    feed(engine, Program().kernel(10).wait(WaitKind.STREAM, stream=2))
    engine.set_aside(0)
    assert len(engine.advance(None, True).answers) == 1
    assert (engine.bound(), engine.outside_ranks()) == (None, [0])


def background(kind: WaitKind, *args: int, slot: int) -> bytes:
    words = [*args, 0, 0, 0, 0][:4]
    return cell(
        RecordKind.WAIT, *words, slot, id=int(kind), flags=int(WaitFlags.BACKGROUND), stream=2
    )


def test_background_queries_are_answered_at_once_and_hold_nobody_up() -> None:
    """While the rank runs at time 0, a helper thread hears what is known by now."""
    engine = make_engine()
    program = Program().kernel(10)
    event = program.record()
    feed(engine, program)
    engine.feed(0, background(WaitKind.QUERY_EVENT, event, slot=1), 0)
    engine.feed(0, background(WaitKind.QUERY_EVENT, 0, slot=2), 0)
    engine.feed(0, background(WaitKind.QUERY_STREAM, slot=3), 0)
    answers = engine.advance(None, True).answers
    assert [(answer.slot, answer.status) for answer in answers] == [(1, 1), (2, 0), (3, 1)]
    assert engine.running_ranks() == [0]
    engine.feed(0, b"", 50)
    engine.advance(None, True)
    engine.feed(0, background(WaitKind.QUERY_EVENT, event, slot=1), 50)
    assert [answer.status for answer in engine.advance(None, True).answers] == [0]


def test_background_synchronisation_is_answered_when_done() -> None:
    """The rank goes on meanwhile, and its clock is not moved."""
    engine = make_engine()
    feed(engine, Program().kernel(100))
    engine.feed(0, background(WaitKind.STREAM, slot=1), 30)
    assert engine.advance(None, True).answers == []
    engine.feed(0, b"", 200)
    (answer,) = engine.advance(None, True).answers
    assert (answer.slot, answer.time_ns) == (1, 100)
    assert engine.bound() == 200
    assert engine.take_spans()["kind"].tolist() == [1]


def test_the_server_may_answer_any_wait_to_stop_a_rank() -> None:
    """The work goes on; the wait is not answered a second time."""
    engine = make_engine()
    feed(engine, Program().kernel(100).wait(WaitKind.STREAM, stream=2))
    engine.answer(0, 0, int(ReplyStatus.STOP), 0, 0)
    engine.exited(0)
    assert engine.advance(None, True).answers == []


def test_exit_ends_the_constraint_and_not_the_work() -> None:
    """A rank that has exited constrains nobody; what it launched still runs."""
    engine = make_engine(2)
    engine.define_communicator(1, [0, 1])
    feed(engine, Program().nccl(op(NcclOpKind.ALL_REDUCE, 0)).do(RecordKind.EXIT, status=0), rank=0)
    feed(engine, Program().nccl(op(NcclOpKind.ALL_REDUCE, 0)).wait(WaitKind.DEVICE), rank=1)
    (ready,) = engine.advance(None, True).ready
    engine.finish(ready.operation, [9, 9])
    assert [answer.time_ns for answer in engine.advance(None, True).answers] == [9]


def test_announcements_come_out_dated() -> None:
    """What is not the engine's business is handed on with the host time at which it was said."""
    engine = make_engine()
    cells = cell(RecordKind.ALLOC, 64, 4096, 64, id=1, host_gap_ns=30)
    cells += announcement(RecordKind.MARKER, b"step", id=2, host_gap_ns=12, site=5)
    alloc, marker = engine.feed(0, cells, 42)
    assert (alloc.kind, alloc.args, alloc.host_time_ns) == (
        RecordKind.ALLOC,
        (64, 4096, 64, 0, 0),
        30,
    )
    assert (marker.marker, marker.payload, marker.host_time_ns, marker.site) == (2, b"step", 42, 5)


def test_an_event_is_forgotten_when_nobody_can_ask_for_its_time() -> None:
    """Events without timing as soon as they are done, others once their handle is gone; both are
    done for whoever asks, and only the second kind had a time.
    """
    untimed, released, kept = 1, 2, 3
    program = Program().kernel(100, stream=2)
    program.do(RecordKind.EVENT_RECORD, instance=untimed, stream=2, flags=int(EventFlags.UNTIMED))
    program.do(RecordKind.EVENT_RECORD, instance=released, stream=2).kernel(50, stream=2)
    program.do(RecordKind.EVENT_RECORD, instance=kept, stream=2).wait(WaitKind.STREAM, stream=2)
    program.wait(WaitKind.ELAPSED, first=released, second=kept)
    program.do(RecordKind.EVENT_RECORD, instance=4, released=released, stream=2)
    program.wait(WaitKind.EVENT, instance=4)
    for event in (untimed, released):
        program.wait(WaitKind.ELAPSED, first=event, second=kept)
        program.wait(WaitKind.QUERY_EVENT, instance=event)
    program.wait(WaitKind.ELAPSED, first=kept, second=4)
    answers = [(status, value) for _, status, _, value in play([program]).answers]
    assert answers == [(0, 0), (0, 50), (0, 0), *[(NOT_READY, 0), (0, 0)] * 2, (0, 0)]


def test_an_event_that_is_released_early_still_holds_others_up() -> None:
    """Its handle is gone before it is done; who waits for it waits all the same."""
    program = Program().kernel(100, stream=2)
    program.do(RecordKind.EVENT_RECORD, instance=1, stream=2)
    program.do(RecordKind.EVENT_RECORD, instance=2, released=1, stream=3).stream_wait(1, stream=3)
    program.kernel(10, stream=3).wait(WaitKind.DEVICE)
    assert play([program]).kernels == [(0, 100), (100, 110)]
