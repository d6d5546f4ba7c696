"""The history depends on what the ranks said and not on how it was delivered."""

import numpy as np
from engine_harness import Program, op, play
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server.records import CopyKind, NcclOpKind, WaitKind

STREAMS = st.integers(0, 3)
GAPS = st.integers(0, 200)
STEPS = st.one_of(
    st.tuples(st.just("kernel"), st.integers(1, 400), STREAMS, GAPS),
    st.tuples(st.just("copy"), st.integers(1, 400), STREAMS, GAPS),
    st.tuples(st.just("event"), STREAMS, STREAMS, GAPS),
    st.tuples(st.just("wait"), st.sampled_from([1, 2, 3, 4, 5, 6]), STREAMS, GAPS),
)


def add(program: Program, step: tuple[str, int, int, int]) -> None:
    what, first, stream, gap_ns = step
    if what == "kernel":
        program.kernel(first, stream=stream, demand=0.2 + first / 1000, gap=gap_ns)
    elif what == "copy":
        program.copy(first, CopyKind(1 + first % 5), stream=stream, gap=gap_ns)
    elif what == "event":
        program.stream_wait(program.record(stream=first, gap=gap_ns), stream=stream)
    else:
        program.wait(
            WaitKind(first), program.events, program.events // 2, stream=stream, gap=gap_ns
        )


@settings(max_examples=60, deadline=None)
@given(
    rounds=st.lists(
        st.tuples(*[st.lists(STEPS, max_size=5) for _ in range(3)], STREAMS), min_size=1, max_size=4
    ),
    seeds=st.lists(st.integers(0, 2**32), min_size=2, max_size=2, unique=True),
)
def test_delivery_order_does_not_matter(
    rounds: list[tuple[list[tuple[str, int, int, int]], ...]], seeds: list[int]
) -> None:
    """Whole streams at once or shuffled pieces: the same spans in the same order, the same answers."""
    programs = [Program() for _ in range(3)]
    for sequence, (*parts, stream) in enumerate(rounds):
        for program, steps in zip(programs, parts, strict=True):
            for step in steps:
                add(program, step)
            program.nccl(op(NcclOpKind.ALL_REDUCE, sequence), stream=stream)
    for program in programs:
        program.wait(WaitKind.DEVICE)
    at_once = play(programs)
    assert not at_once.engine.waiting_ranks()
    for seed in seeds:
        in_pieces = play(programs, seed=seed)
        np.testing.assert_array_equal(at_once.spans, in_pieces.spans)
        assert at_once.answers == in_pieces.answers
