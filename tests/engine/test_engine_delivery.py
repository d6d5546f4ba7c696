"""The history depends on what the ranks said and not on how it was delivered."""

import numpy as np
from engine_harness import Program, make_engine, op, play
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server._engine import Ready
from sim_server.records import CopyKind, NcclOpKind, WaitKind
from sim_server.records.schema import WAIT_LAYOUTS

STREAMS = st.integers(0, 3)
GAPS = st.integers(0, 200)
STEPS = st.one_of(
    st.tuples(st.just("kernel"), st.integers(1, 400), STREAMS, GAPS),
    st.tuples(st.just("copy"), st.integers(1, 400), STREAMS, GAPS),
    st.tuples(st.just("event"), STREAMS, STREAMS, GAPS),
    st.tuples(st.just("wait"), st.sampled_from([1, 2, 3, 4, 5, 6]), STREAMS, GAPS),
)


Step = tuple[str, int, int, int]
Steps = list[Step]


def add(program: Program, step: Step) -> None:
    what, first, stream, gap_ns = step
    if what == "kernel":
        program.kernel(first, stream=stream, demand=0.2 + first / 1000, gap=gap_ns)
    elif what == "copy":
        program.copy(first, CopyKind(1 + first % 5), stream=stream, gap=gap_ns)
    elif what == "event":
        program.stream_wait(program.record(stream=first, gap=gap_ns), stream=stream)
    else:
        # Of one event, of two, or of none, as the kind of wait has it.
        names = dict.fromkeys(WAIT_LAYOUTS[WaitKind(first)].args, program.events)
        if "second" in names:
            names["second"] = program.events // 2
        program.wait(WaitKind(first), stream=stream, gap=gap_ns, **names)


def described(ready: Ready) -> tuple[int, int, int, list[int]]:
    return ready.operation, ready.time_ns, ready.count, ready.arrivals_ns


@settings(max_examples=100, deadline=None)
@given(
    rounds=st.lists(
        st.tuples(*[st.lists(STEPS, max_size=5) for _ in range(3)], STREAMS), min_size=1, max_size=4
    ),
    seeds=st.lists(st.integers(0, 2**32), min_size=2, max_size=2, unique=True),
)
def test_delivery_order_does_not_matter(
    rounds: list[tuple[Steps, Steps, Steps, int]], seeds: list[int]
) -> None:
    """Whole streams at once or shuffled pieces: the same spans, answers and operations."""
    programs = [Program() for _ in range(3)]
    for sequence, (first, second, third, stream) in enumerate(rounds):
        for program, steps in zip(programs, (first, second, third), strict=True):
            for step in steps:
                add(program, step)
            program.nccl(op(NcclOpKind.ALL_REDUCE, sequence), stream=stream)
    for program in programs:
        program.wait(WaitKind.DEVICE)
    at_once = play(programs)
    assert not at_once.engine.waiting_ranks()
    for seed in seeds:
        in_pieces = play(programs, seed=seed)
        np.testing.assert_array_equal(np.sort(at_once.spans), np.sort(in_pieces.spans))
        assert sorted(at_once.answers) == sorted(in_pieces.answers)
        assert [described(one) for one in at_once.ready] == [
            described(one) for one in in_pieces.ready
        ]


def test_operations_of_one_time_are_numbered_by_rank() -> None:
    """Not by which rank was heard first: what is issued at the bound waits until it has passed."""
    engine = make_engine(2)
    engine.define_communicator(1, [0])
    engine.define_communicator(2, [1])
    alone = [
        Program().nccl(op(NcclOpKind.ALL_REDUCE, 0, comm=comm), gap=50).steps for comm in (1, 2)
    ]
    engine.feed(1, b"".join(cells for cells, _, _ in alone[1]), 60)
    engine.feed(0, b"", 50)
    assert engine.advance(None, True).ready == []
    engine.feed(0, b"".join(cells for cells, _, _ in alone[0]), 60)
    assert [engine.advance(None, True).ready[0].comm for _ in range(2)] == [1, 2]
