"""Iterations that wait for the host, with `--host-time fixed`, to the nanosecond.

An operator costs the host LAUNCH_NS, after which its kernel is issued; its kernel takes `short` ns,
less than that, or `long` ns.
"""

from __future__ import annotations

import pytest
from analytic_runs import run_program
from by_hand import all_reduce_of_pair_ns
from phantora_runs import Run
from sections import Section, back_to_back, duration_ns

pytestmark = pytest.mark.torch

# host.launch_ns and so on of the GPU profile.
LAUNCH_NS, COPY_NS, EVENT_NS, SYNC_NS, COLLECTIVE_NS = 6_000, 7_000, 700, 3_000, 20_000
ITERATIONS = 2  # of the program that are measured
RANKS = (0, 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_program(tmp_path_factory.mktemp("host"), "host", host_time="fixed", gpus_per_node=1)


@pytest.fixture(scope="module")
def short(run: Run) -> int:
    return duration_ns(run.data, "gemm bf16 512x512x512")


@pytest.fixture(scope="module")
def long(run: Run) -> int:
    return duration_ns(run.data, "gemm bf16 4096x4096x4096")


def test_many_small_kernels_are_bound_by_their_launches(run: Run, short: int) -> None:
    """The device idles between kernels; the iteration ends with the last one."""
    assert SYNC_NS < short < LAUNCH_NS
    case = Section(run.data, "launch_bound")
    for rank in RANKS:
        assert case.kernels(rank)[:50] == [
            (launch * LAUNCH_NS, launch * LAUNCH_NS + short) for launch in range(1, 51)
        ]
        assert case.ends_ns[rank][0] == 50 * LAUNCH_NS + short


def test_large_kernels_are_not(run: Run, long: int) -> None:
    """Only the first launch shows; the host runs ahead of the others."""
    case = Section(run.data, "device_bound")
    for rank in RANKS:
        assert case.kernels(rank)[:5] == back_to_back(LAUNCH_NS, 5 * [long])
        assert case.ends_ns[rank][0] == LAUNCH_NS + 5 * long


def test_the_device_catches_up(run: Run, short: int, long: int) -> None:
    """Small kernels behind a large one run back to back until none is left that was issued."""
    case = Section(run.data, "turning")
    ends = [LAUNCH_NS + long]
    for launch in range(2, 152):
        ends.append(max(ends[-1], launch * LAUNCH_NS) + short)
    backlog = sum(end - short > launch * LAUNCH_NS for launch, end in enumerate(ends[1:], 2))
    # The backlog shrinks by the difference of launch and kernel with every kernel.
    assert backlog == -(-(long - LAUNCH_NS) // (LAUNCH_NS - short))
    for rank in RANKS:
        assert [end for _, end in case.kernels(rank)[:151]] == ends
        assert case.ends_ns[rank][0] == 151 * LAUNCH_NS + short


def test_reading_back_every_step(run: Run, short: int) -> None:
    """An operator, a copy of four bytes, a synchronisation that the device is done before."""
    case = Section(run.data, "read_back")
    turn_ns = LAUNCH_NS + COPY_NS + SYNC_NS
    assert short < COPY_NS
    for rank in RANKS:
        assert case.ends_ns[rank][0] == 3 * turn_ns + SYNC_NS
        assert [start for start, _ in case.copies(rank)[:3]] == [
            turn * turn_ns + LAUNCH_NS + COPY_NS for turn in range(3)
        ]


def test_input_that_takes_its_time(run: Run, short: int) -> None:
    """time.sleep of 2 ms between two operators is in the iteration."""
    case = Section(run.data, "input_bound")
    for rank in RANKS:
        assert case.ends_ns[rank][0] == 2 * LAUNCH_NS + 2_000_000 + short


def test_a_collective_costs_its_call(run: Run) -> None:
    """PyTorch records an event, calls NCCL, and waits for the device while the links work."""
    case = Section(run.data, "reduced")
    reduce_ns = all_reduce_of_pair_ns(400_000)
    for rank in RANKS:
        issued_ns = EVENT_NS + COLLECTIVE_NS
        assert case.communication(rank)[0] == (issued_ns, issued_ns + reduce_ns)
        assert case.ends_ns[rank][0] == issued_ns + reduce_ns


def test_reported_iterations(run: Run, short: int) -> None:
    """The report finds the first range that repeats, from end to end: the barrier is in between.

    Its call costs an event and a collective, and the host synchronises after it once more.
    """
    between_ns = EVENT_NS + COLLECTIVE_NS + all_reduce_of_pair_ns(4) + SYNC_NS
    iterations = run.summary["iterations"]
    assert iterations["detected_by"] == "nvtx"
    assert iterations["per_iteration_ns"] == [between_ns + 50 * LAUNCH_NS + short]


def test_iterations_repeat(run: Run) -> None:
    """Nothing is left of an iteration in the next one."""
    for name in ("launch_bound", "device_bound", "turning", "read_back", "input_bound", "reduced"):
        case = Section(run.data, name)
        for rank in RANKS:
            first_ns = case.ends_ns[rank][0]
            kernels = case.kernels(rank)
            half = len(kernels) // ITERATIONS
            shift_ns = case.ends_ns[rank][1] - first_ns
            assert [(start + shift_ns, end + shift_ns) for start, end in kernels[:half]] == (
                kernels[half:]
            )
