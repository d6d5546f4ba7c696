"""Operations meet by communicator and number; what does not meet is explained."""

import pytest
from engine_harness import Program, cell, make_engine, op, play

from sim_server.records import NcclOpKind, RecordKind, WaitKind
from sim_server.records.writer import announcement


def test_a_collective_moves_when_its_last_participant_arrives() -> None:
    """The early rank's communication lasts from its own arrival until the common end."""
    early = Program().nccl(op(NcclOpKind.ALL_REDUCE, 0), gap=10).wait(WaitKind.STREAM, stream=3)
    late = Program().nccl(op(NcclOpKind.ALL_REDUCE, 0), gap=700).wait(WaitKind.STREAM, stream=3)
    history = play([early, late])
    (ready,) = history.ready
    assert (ready.time_ns, ready.arrivals_ns, ready.operation) == (700, [10, 700], 0)
    assert history.rows(4, rank=0) == [(10, 1700)]
    assert history.rows(4, rank=1) == [(700, 1700)]
    assert history.answers == [(0, 0, 1700, 0), (1, 0, 1700, 0)]


def test_a_collective_arrives_at_the_head_of_its_stream() -> None:
    """A kernel before it in the stream delays the arrival."""
    busy = Program().kernel(500, stream=3).nccl(op(NcclOpKind.ALL_REDUCE, 0))
    history = play([busy, Program().nccl(op(NcclOpKind.ALL_REDUCE, 0))])
    assert history.ready[0].arrivals_ns == [500, 0]


def test_participants_may_end_at_different_times() -> None:
    """Each rank's stream goes on at its own end; an end in the past counts as now."""
    engine = make_engine(2)
    engine.define_communicator(1, [1, 0])
    for rank in (0, 1):
        program = (
            Program().nccl(op(NcclOpKind.ALL_REDUCE, 0), gap=100).wait(WaitKind.STREAM, stream=3)
        )
        engine.feed(rank, b"".join(step for step, _, _ in program.steps), 100)
    (ready,) = engine.advance(None, True).ready
    engine.finish(ready.operation, [50, 300])
    first = engine.advance(None, True)
    assert [(answer.rank, answer.time_ns) for answer in first.answers] == [(1, 100)]
    engine.exited(1)
    assert [(answer.rank, answer.time_ns) for answer in engine.advance(None, True).answers] == [
        (0, 300)
    ]


def test_a_launch_ends_with_its_last_operation() -> None:
    """Two grouped collectives: one launch, work behind it waits for both."""
    group = (op(NcclOpKind.ALL_REDUCE, 0), op(NcclOpKind.ALL_GATHER, 1))
    program = Program().nccl(*group).kernel(10, stream=3)
    history = play([program], operation_ns=lambda ready: 100 * (1 + ready.operation))
    assert len({ready.launch for ready in history.ready}) == 1
    assert history.rows(4) == [(0, 100), (0, 200)]
    assert history.kernels == [(200, 210)]


def test_a_send_meets_its_receive() -> None:
    """By communicator, source, destination and number; participants are source and destination."""
    sender = Program().nccl(op(NcclOpKind.SEND, 0, root=1), gap=5)
    receiver = Program().nccl(op(NcclOpKind.RECV, 0, root=0), gap=9)
    history = play([Program(), sender, receiver], comms={1: [1, 2]})
    (ready,) = history.ready
    assert (ready.kind, ready.source, ready.destination) == (NcclOpKind.SEND, 1, 2)
    assert (ready.time_ns, ready.arrivals_ns) == (9, [5, 9])


def test_grouped_sends_and_receives_do_not_block_each_other() -> None:
    """All-to-all of two ranks as one group each, with the part to oneself."""
    programs = []
    for rank in (0, 1):
        kinds = (NcclOpKind.SEND, NcclOpKind.RECV)
        parts = [op(kind, 0, root=peer) for peer in (0, 1) for kind in kinds]
        programs.append(Program().nccl(*parts, gap=10 * rank).wait(WaitKind.DEVICE))
    history = play(programs)
    assert [(ready.source, ready.destination, ready.time_ns) for ready in history.ready] == [
        (0, 0, 0),
        (1, 0, 10),
        (0, 1, 10),
        (1, 1, 10),
    ]
    assert len(history.answers) == 2


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (op(NcclOpKind.ALL_REDUCE, 0, count=9), "AllReduce(9 x float32, sum)"),
        (op(NcclOpKind.ALL_REDUCE, 0, dtype=6), "AllReduce(8 x float16, sum)"),
        (op(NcclOpKind.ALL_GATHER, 0), "AllGather(8 x float32)"),
    ],
)
def test_mismatched_collectives_are_named_with_their_lines(other: bytes, says: str) -> None:
    """Both ranks, both operations and both Python lines are in the message."""
    first = Program().nccl(op(NcclOpKind.ALL_REDUCE, 0), site=4)
    first.steps.insert(0, (announcement(RecordKind.SITE, b"train.py:7 step", id=4), 0, False))
    second = Program().nccl(other)
    assert play([first, second]).mismatch == (
        "Mismatched operation 0 of communicator 1: rank 0 issued AllReduce(8 x float32, sum) at "
        f"train.py:7 step; rank 1 issued {says} at an unknown line"
    )


def test_a_root_must_agree() -> None:
    """Two roots for one broadcast are a mismatch."""
    programs = [Program().nccl(op(NcclOpKind.BROADCAST, 0, root=root)) for root in (0, 1)]
    mismatch = play(programs).mismatch
    assert mismatch is not None
    assert "Broadcast(8 x float32, root 1)" in mismatch


def test_a_deadlock_can_be_told() -> None:
    """Who arrived at what, who did not, and what each waiting rank waits for."""
    stuck = Program().kernel(10, stream=3).nccl(op(NcclOpKind.ALL_REDUCE, 5), site=3)
    stuck.kernel(10, stream=3).wait(WaitKind.STREAM, stream=3)
    other = Program().wait(WaitKind.DEVICE)
    history = play([stuck, other])
    engine = history.engine
    assert engine.waiting_ranks() == [0]
    assert engine.next_time() is None
    (pending,) = engine.pending_operations()
    assert (pending.comm, pending.kind, pending.sequence) == (1, NcclOpKind.ALL_REDUCE, 5)
    assert (pending.arrived, pending.missing) == ([(0, 0, 3, 10)], [(1, 1)])
    (wait,) = engine.host_waits()
    assert (wait.rank, wait.kind, wait.since_ns) == (0, WaitKind.STREAM, 0)
    assert wait.held_up_by == ["AllReduce 5 of communicator 1"]
    assert (engine.last_site(0), engine.last_site(1)) == (3, 0)


def test_communicator_waits_are_requests_that_the_server_answers() -> None:
    """The wait's arguments come out; the answer's time is the rank's from then on."""
    engine = make_engine()
    engine.feed(
        0, cell(RecordKind.WAIT, 77, 4, 2, 0, 3, id=int(WaitKind.COMM_INIT), host_gap_ns=20), 0
    )
    (request,) = engine.advance(None, True).requests
    assert (request.rank, request.slot, request.kind) == (0, 3, WaitKind.COMM_INIT)
    assert (request.args, request.time_ns) == ((77, 4, 2, 0, 3), 20)
    assert engine.bound() is None
    engine.answer(0, 3, 0, 500, 1)
    assert engine.bound() == 500
    assert engine.take_spans()[["start_ns", "end_ns"]].tolist() == [(20, 500)]


def test_a_rank_may_be_two_members() -> None:
    """Its device says which; both take part in one operation, each on its own stream."""
    engine = make_engine(2)
    engine.define_communicator(1, [4, 1, 5], [(0, 2), (1, 0), (0, 3)])
    one = Program()
    for device, gap in ((3, 10), (2, 20)):
        reduce = op(NcclOpKind.ALL_REDUCE, 0, device=device)
        one.nccl(reduce, stream=0, gap=gap, device=device)
    other = Program().nccl(op(NcclOpKind.ALL_REDUCE, 0, device=7), gap=25)
    for rank, program in enumerate((one, other)):
        engine.feed(rank, b"".join(step for step, _, _ in program.steps), 100)
    (ready,) = engine.advance(None, True).ready
    assert (ready.rank, ready.arrivals_ns) == (0, [30, 25, 10])


def test_sends_name_members() -> None:
    """From one GPU of a rank to another of it."""
    engine = make_engine(1)
    engine.define_communicator(1, [0, 1], [(0, 0), (0, 1)])
    program = Program()
    program.nccl(op(NcclOpKind.SEND, 0, root=1, device=0), stream=0)
    program.nccl(op(NcclOpKind.RECV, 0, root=0, device=1), stream=0, device=1)
    engine.feed(0, b"".join(step for step, _, _ in program.steps), 100)
    (ready,) = engine.advance(None, True).ready
    assert (ready.source, ready.destination) == (0, 1)
