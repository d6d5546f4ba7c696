"""Kernels share a device; copies have engines of their own; communication takes multiprocessors."""

from fractions import Fraction

from engine_harness import Program, op, play
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server.records import CopyKind, NcclOpKind


def test_two_kernels_that_each_fill_the_device_share_it() -> None:
    """Each runs at half speed while both run."""
    program = Program().kernel(100, stream=2).kernel(40, stream=3)
    assert play([program]).kernels == [(0, 80), (0, 140)]


def test_two_small_kernels_do_not_disturb_each_other() -> None:
    """Demands that fit together run at full speed."""
    program = Program().kernel(100, stream=2, demand=0.5).kernel(40, stream=3, demand=0.5)
    assert play([program]).kernels == [(0, 40), (0, 100)]


def test_a_late_kernel_slows_the_first_from_then_on() -> None:
    """100 ns of work, alone for 50 ns, then at half speed until the second is done."""
    program = Program().kernel(100, stream=2).kernel(20, stream=3, gap=50)
    assert play([program]).kernels == [(0, 120), (50, 90)]


def test_work_that_ends_with_a_nanosecond_does_not_end_one_later() -> None:
    """At 8/9 of its speed from 2 ns on, a kernel of 10 ns ends at 11 ns, however often that rate is
    set anew.
    """
    program = Program().kernel(10, stream=3, demand=0.125)
    program.kernel(1, demand=0.125).kernel(1, demand=0.125).kernel(1).kernel(7)
    assert (0, 11) in play([program]).kernels


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 500), st.integers(1, 100), st.integers(0, 300)),
        min_size=1,
        max_size=6,
    )
)
def test_sharing_is_exact(kernels: list[tuple[int, int, int]]) -> None:
    """Ends are those of exact processor sharing, rounded up, within a nanosecond per end before."""
    program = Program(streams=8)
    for index, (duration_ns, percent, gap_ns) in enumerate(kernels):
        program.kernel(duration_ns, stream=2 + index, demand=percent / 100, gap=gap_ns)
    spans = play([program]).spans
    got = {int(span["id"]): int(span["end_ns"]) for span in spans[spans["kind"] == 1]}
    for signature, end in _exact_ends(kernels).items():
        assert end <= got[signature] < end + len(kernels) + 1


def _exact_ends(kernels: list[tuple[int, int, int]]) -> dict[int, Fraction]:
    arrivals = []
    issue_ns = 0
    for signature, (duration_ns, percent, gap_ns) in enumerate(kernels, start=1):
        issue_ns += gap_ns
        arrivals.append(
            (Fraction(issue_ns), signature, Fraction(duration_ns), Fraction(percent, 100))
        )
    now = Fraction(0)
    left: dict[int, tuple[Fraction, Fraction]] = {}
    ends: dict[int, Fraction] = {}
    while arrivals or left:
        total = sum((demand for _, demand in left.values()), Fraction(0))
        rate = min(Fraction(1), 1 / total) if total else Fraction(0)
        done = min((now + work / rate for work, _ in left.values()), default=None)
        until = arrivals[0][0] if arrivals and (done is None or arrivals[0][0] < done) else done
        assert until is not None
        left = {key: (work - rate * (until - now), demand) for key, (work, demand) in left.items()}
        now = until
        ends |= {key: now for key, (work, _) in left.items() if work == 0}
        left = {key: value for key, value in left.items() if key not in ends}
        while arrivals and arrivals[0][0] == now:
            _, signature, work, demand = arrivals.pop(0)
            left[signature] = (work, demand)
    return ends


def test_copies_overlap_kernels_and_the_other_direction() -> None:
    """A kernel, a copy in and a copy out run side by side."""
    program = Program().kernel(100, stream=1).copy(90, CopyKind.HOST_TO_DEVICE, stream=2)
    program.copy(90, CopyKind.DEVICE_TO_HOST, stream=3)
    history = play([program])
    assert history.kernels == [(0, 100)]
    assert history.rows(2) == [(0, 100), (0, 100)]


def test_copies_of_one_direction_take_turns() -> None:
    """One engine per direction, first come, first served."""
    program = Program()
    for stream in (2, 3, 1):
        program.copy(90, CopyKind.HOST_TO_DEVICE, stream=stream, gap=1)
    assert play([program]).rows(2) == [(1, 101), (101, 201), (201, 301)]


def test_copies_inside_a_device_and_fills_compete_with_kernels() -> None:
    """A device-to-device copy (10 + 90 ns) and a fill (50 ns) fill the device as kernels do."""
    program = Program().kernel(100, stream=1).copy(90, CopyKind.DEVICE_TO_DEVICE, stream=2)
    assert play([program]).rows(2) == [(0, 200)]
    assert play([Program().kernel(50, stream=1).fill(100, stream=2)]).rows(3) == [(0, 100)]


def test_pageable_copies_have_their_own_rate() -> None:
    """Half the rate here; a kind without a pageable rate uses its only one."""
    assert play([Program().copy(90, CopyKind.HOST_TO_DEVICE, pageable=True)]).rows(2) == [(0, 190)]
    assert play([Program().copy(90, CopyKind.DEVICE_TO_HOST, pageable=True)]).rows(2) == [(0, 100)]


def test_a_copy_rounds_up_once() -> None:
    """3 bytes at 2 bytes/ns take 2 ns."""
    assert play([Program().fill(3)]).rows(3) == [(0, 2)]


def test_communication_takes_multiprocessors_from_kernels() -> None:
    """20 of 100 are taken for 400 ns: 320 ns of work done, the rest at full speed."""
    program = Program().nccl(op(NcclOpKind.ALL_REDUCE, 0)).kernel(1000)
    history = play([program], operation_ns=lambda ready: 400)
    assert history.rows(4) == [(0, 400)]
    assert history.kernels == [(0, 1080)]


def test_communication_leaves_small_kernels_alone() -> None:
    """What is left is enough for a kernel that needs half the device."""
    program = Program().nccl(op(NcclOpKind.ALL_REDUCE, 0)).kernel(1000, demand=0.5)
    assert play([program]).kernels == [(0, 1000)]


def test_many_launches_never_stop_the_device() -> None:
    """Ten launches would take twice the device; a tenth of it is always left."""
    program = Program(streams=12)
    for stream in range(2, 12):
        program.nccl(op(NcclOpKind.ALL_REDUCE, stream), stream=stream)
    program.kernel(100, stream=12)
    assert play([program], operation_ns=lambda ready: 10_000).kernels == [(0, 1000)]
