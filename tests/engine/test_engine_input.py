"""Malformed records are refused by rank and index; our own faults show the last records."""

import pytest
from engine_harness import Program, cell, make_engine

from sim_server.records import NcclOpKind, RecordKind, WaitKind
from sim_server.records.writer import announcement

CREATE = cell(RecordKind.STREAM_CREATE, stream=1)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (b"x" * 63, "rank 0: 63 bytes are not whole cells of 64 bytes"),
        (CREATE + b"\xff" * 64, "rank 0, record 1 (kind 255): unknown kind"),
        (CREATE + CREATE, "rank 0, record 1 (StreamCreate): stream 1 exists"),
        (cell(RecordKind.FILL, 8, stream=7), "rank 0, record 0 (Fill): stream 7 does not exist"),
        (cell(RecordKind.KERNEL, id=3), "rank 0, record 0 (Kernel): signature 3 was not announced"),
        (cell(RecordKind.COPY, 1, id=9), "rank 0, record 0 (Copy): no rate for copies of kind 9"),
        (cell(RecordKind.EVENT_RECORD, 0), "rank 0, record 0 (EventRecord): event instance 0"),
        (
            cell(RecordKind.EVENT_RECORD, 1) * 2,
            "record 1 (EventRecord): event instance 1 was recorded before",
        ),
        (cell(RecordKind.NCCL_OP), "rank 0, record 0 (NcclOp): stands outside an NcclLaunch"),
        (cell(RecordKind.NCCL_LAUNCH, 1) + CREATE, "(NcclLaunch): is not followed by its NcclOps"),
        (cell(RecordKind.NCCL_LAUNCH, 1) + cell(RecordKind.NCCL_OP, flags=99), "operation 99"),
        (cell(RecordKind.WAIT, 0, 0, 0, 0, 16, id=1), "(Wait): reply slot 16"),
        (cell(RecordKind.WAIT, id=77), "(Wait): kind of wait 77"),
        (cell(RecordKind.WAIT, id=int(WaitKind.DEVICE)) * 2, "reply slot 0 still waits"),
        (cell(RecordKind.SITE, 1 << 60), "(Site): is longer than the ring"),
        (cell(RecordKind.EXIT, host_gap_ns=(1 << 64) - 1), "(Exit): host time overflows"),
        (cell(RecordKind.STREAM_DESTROY), "the legacy stream cannot be destroyed"),
    ],
)
def test_malformed_input_is_refused(cells: bytes, message: str) -> None:
    """The message names the rank, the record and what is wrong with it."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared below
        make_engine().feed(0, cells, 0)
    assert message in str(error.value)


def test_a_cut_may_fall_anywhere() -> None:
    """Cell by cell or at once, the same comes out."""
    cells = announcement(RecordKind.SIGNATURE, b"x" * 200, id=1) + cell(RecordKind.NCCL_LAUNCH, 2)
    cells += cell(RecordKind.NCCL_OP, id=1, flags=1) * 2 + announcement(RecordKind.SITE, b"", id=3)
    engine = make_engine()
    heard = [
        one for at in range(0, len(cells), 64) for one in engine.feed(0, cells[at : at + 64], 0)
    ]
    assert [(one.kind, one.payload) for one in heard] == [(1, b"x" * 200), (2, b"")]
    assert [one.kind for one in make_engine().feed(0, cells, 0)] == [1, 2]


def test_an_operation_outside_its_communicator_is_refused() -> None:
    """A rank that is not a member, or a communicator nobody defined."""
    engine = make_engine(2)
    engine.define_communicator(1, [1])
    launch = cell(RecordKind.NCCL_LAUNCH, 1)
    engine.feed(
        0, launch + cell(RecordKind.NCCL_OP, 1, 7, id=1, flags=int(NcclOpKind.ALL_REDUCE)), 9
    )
    engine.feed(1, b"", 9)
    with pytest.raises(ValueError, match="rank 0 is not in communicator 1"):
        engine.advance(None, True)


def test_a_broken_invariant_shows_the_last_records() -> None:
    """A kernel whose duration nobody set is the server's fault, not the user's."""
    engine = make_engine()
    program = Program().kernel(10, stream=2, gap=3)
    engine.feed(0, b"".join(step for step, _, _ in program.steps), 10)
    with pytest.raises(RuntimeError, match="duration was not set") as error:
        engine.advance(None, True)
    assert "last records of rank 0:\n  3 ns Kernel id 1 device 0" in str(error.value)


def test_work_before_a_guarantee_is_the_rank_s_contradiction() -> None:
    """A running rank may issue nothing before the clock it reported, once time is there."""
    engine = make_engine()
    engine.feed(0, CREATE, 1000)
    engine.advance(None, True)
    with pytest.raises(
        ValueError, match=r"rank 0, record 1 .Fill.: comes from before the host clock"
    ):
        engine.feed(0, cell(RecordKind.FILL, 8, stream=1, host_gap_ns=1), 1000)


def test_arguments_are_checked() -> None:
    """Ranks, answers, operations and durations that cannot be."""
    engine = make_engine()
    engine.feed(0, announcement(RecordKind.SIGNATURE, b"{}", id=1), 0)
    for wrong in (
        lambda: engine.feed(1, b"", 0),
        lambda: engine.answer(0, 0, 0, 0, 0),
        lambda: engine.finish(0, []),
        lambda: engine.set_duration(0, 1, -1, 1.0, 0),
        lambda: engine.set_duration(0, 1, 1, 1.5, 0),
        lambda: engine.set_duration(0, 2, 1, 1.0, 0),
        lambda: engine.define_communicator(1, [0, 0]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
            wrong()
