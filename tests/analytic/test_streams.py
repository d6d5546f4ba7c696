"""Compute, communication and dependences between streams, worked out by hand, to the nanosecond.

The host costs nothing here (`--host-time off`), so a case is issued in no time at its start, 0. A
product of 512 x 512 matrices takes `work` ns and 64 of the 132 multiprocessors, so that one
beside two communication launches (24 each), or two beside each other, run as if alone. A product of
4096 x 4096 matrices takes `wide` ns alone and wants all of them.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from analytic_runs import run_program
from by_hand import (
    BARRIER_NS,
    BETWEEN_NS,
    NCCL_SMS,
    NIC_BYTES_PER_NS,
    SM_COUNT,
    all_reduce_of_all_ns,
    all_reduce_of_pair_ns,
    send_between_ns,
    send_inside_ns,
)
from sections import Interval, Section, back_to_back, duration_ns

from phantora_py.data import RunData

pytestmark = pytest.mark.torch

RANKS = range(4)
# Sizes of the program's buffers.
SMALL_BYTES, LARGE_BYTES, HALF_BYTES, ODD_BYTES = 400_000, 4_000_000, 2_000_000, 1_000_004
WORK, WIDE = "gemm bf16 512x512x512", "gemm bf16 4096x4096x4096"
# From the GPU profile: a copy to pinned memory of the host, whose 4 bytes take a nanosecond.
READ_BACK_NS = 2_500 + 1


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return run_program(tmp_path_factory.mktemp("streams"), "streams").data


@pytest.fixture(scope="module")
def work(data: RunData) -> int:
    return duration_ns(data, WORK)


@pytest.fixture(scope="module")
def wide(data: RunData) -> int:
    return duration_ns(data, WIDE)


def section(data: RunData, name: str) -> Section:
    return Section(data, f"measured {name}")


def all_alike(value: int) -> dict[int, int]:
    return dict.fromkeys(RANKS, value)


def test_hidden_communication_costs_nothing(data: RunData, work: int) -> None:
    """A collective that ends before the compute beside it does not lengthen the iteration."""
    case = section(data, "hidden")
    reduce_ns = all_reduce_of_all_ns(SMALL_BYTES)
    assert reduce_ns < 40 * work
    assert case.end_ns == all_alike(41 * work)
    for rank in RANKS:
        assert case.communication(rank) == [(0, reduce_ns)]
        assert case.kernels(rank, WORK) == back_to_back(0, 41 * [work])


def test_exposed_communication_is_what_compute_does_not_cover(data: RunData, work: int) -> None:
    """Kernels that wait for a longer collective begin when it ends, and no earlier one waits."""
    case = section(data, "exposed")
    reduced_ns = 3 * work + all_reduce_of_all_ns(LARGE_BYTES)
    assert reduced_ns > 43 * work
    assert case.end_ns == all_alike(reduced_ns + 2 * work)
    for rank in RANKS:
        assert case.communication(rank) == [(3 * work, reduced_ns)]
        assert case.kernels(rank, WORK) == [
            *back_to_back(0, 43 * [work]),
            *back_to_back(reduced_ns, 2 * [work]),
        ]


def rate(launches: int) -> Fraction:
    """What a wide kernel has of the device beside communication launches; counted in millionths."""
    return 1 - Fraction(10**6 * launches * NCCL_SMS // SM_COUNT, 10**6)


def slowed_end_ns(start_ns: int, alone_ns: int, phases: list[tuple[int, int]]) -> int:
    """End of a wide kernel. `phases`: until when how many launches run; none after the last."""
    left_ns, at_ns = Fraction(alone_ns), start_ns
    for until_ns, launches in phases:
        done_ns = max(until_ns - at_ns, 0) * rate(launches)
        if done_ns >= left_ns:
            return at_ns + ceil(left_ns / rate(launches))
        left_ns -= done_ns
        at_ns = max(until_ns, at_ns)
    return at_ns + ceil(left_ns)


def test_a_wide_kernel_is_slowed_by_communication(data: RunData, wide: int) -> None:
    """Until the collective ends the kernel has 108 of 132 multiprocessors, then all."""
    case = section(data, "shared")
    reduce_ns = all_reduce_of_all_ns(SMALL_BYTES)
    assert reduce_ns < wide
    end_ns = slowed_end_ns(0, wide, [(reduce_ns, 1)])
    assert case.end_ns == all_alike(end_ns)
    for rank in RANKS:
        assert case.kernels(rank, WIDE) == [(0, end_ns)]


def test_two_collectives_slow_kernels_down_more(data: RunData, wide: int) -> None:
    """Ten wide kernels beside two communicators that share the NICs, until each has ended.

    Both start with equal rates. When the smaller one has moved all its bytes, the larger one has
    moved as many; the rest of it has the NICs alone.
    """
    case = section(data, "shared_by_two")
    small_bytes, large_bytes = (3 * size // 2 for size in (HALF_BYTES, LARGE_BYTES))  # on a NIC
    first_end_ns = all_reduce_of_all_ns(0) + 2 * small_bytes // NIC_BYTES_PER_NS
    last_end_ns = first_end_ns + (large_bytes - small_bytes) // NIC_BYTES_PER_NS
    phases = [(first_end_ns, 2), (last_end_ns, 1)]
    kernels: list[Interval] = []
    for _ in range(10):
        start_ns = kernels[-1][1] if kernels else 0
        kernels.append((start_ns, slowed_end_ns(start_ns, wide, phases)))
    assert kernels[-2][0] > last_end_ns
    assert case.end_ns == all_alike(kernels[-1][1])
    for rank in RANKS:
        assert case.communication(rank) == [(0, first_end_ns), (0, last_end_ns)]
        assert case.kernels(rank, WIDE) == kernels


def test_a_late_rank_holds_the_others_up(data: RunData, work: int) -> None:
    """A collective moves when its last rank arrives; the others wait at the head of a stream."""
    case = section(data, "late")
    moves_ns = 5 * 3 * work
    reduced_ns = moves_ns + all_reduce_of_all_ns(LARGE_BYTES)
    assert case.end_ns == all_alike(reduced_ns + work)
    for rank in RANKS:
        assert case.communication(rank) == [(5 * rank * work, reduced_ns)]


def test_a_rank_that_sleeps_holds_the_others_up(data: RunData) -> None:
    """time.sleep(0.001) of one host is a millisecond, to the nanosecond."""
    case = section(data, "asleep")
    end_ns = 1_000_000 + all_reduce_of_all_ns(SMALL_BYTES)
    assert case.end_ns == all_alike(end_ns)
    for rank in RANKS:
        assert case.communication(rank) == [(1_000_000 if rank == 1 else 0, end_ns)]


def test_dependent_streams(data: RunData, work: int) -> None:
    """What waits for an event of another stream starts with it; the rest goes on meanwhile.

    The main stream has five products; the first side stream starts after two of them and has four,
    the second starts after those and has one, after which the main stream has a last one.
    """
    case = section(data, "dependent")
    assert case.end_ns == all_alike((2 + 4 + 1 + 1) * work)
    for rank in RANKS:
        main, first, second = case.streams(rank, WORK)
        on = {stream: case.kernels(rank, WORK, stream) for stream in (main, first, second)}
        assert on[main] == [*back_to_back(0, 5 * [work]), (7 * work, 8 * work)]
        assert on[first] == back_to_back(2 * work, 4 * [work])
        assert on[second] == [(6 * work, 7 * work)]


def test_streams_that_hand_work_to_each_other(data: RunData, work: int) -> None:
    """Nothing overlaps where each stream waits for the other."""
    case = section(data, "chained")
    assert case.end_ns == all_alike(5 * 3 * work)
    for rank in RANKS:
        main, side = case.streams(rank, WORK)
        assert case.kernels(rank, WORK, main) == [
            (3 * i * work, (3 * i + 1) * work) for i in range(5)
        ]
        assert case.kernels(rank, WORK) == back_to_back(0, 15 * [work])
        assert len(case.kernels(rank, WORK, side)) == 10


def test_a_straggler_is_waited_for_at_the_barrier(data: RunData, work: int) -> None:
    """Ten more products of one rank cost everybody their time."""
    case = section(data, "straggler")
    met_ns = 11 * work + BARRIER_NS
    assert case.end_ns == all_alike(met_ns + work)
    for rank in RANKS:
        arrival_ns = (11 if rank == 2 else 1) * work
        assert case.communication(rank) == [(arrival_ns, met_ns)]
        assert case.kernels(rank, WORK)[-1] == (met_ns, met_ns + work)


def test_two_communicators_halve_the_rate_of_a_nic(data: RunData) -> None:
    """Two equal all-reduces over the same NICs take as long as one of twice the size."""
    case = section(data, "shared_nic")
    assert case.end_ns == all_alike(all_reduce_of_pair_ns(LARGE_BYTES, sharing=2))


def test_the_shorter_collective_frees_the_nic(data: RunData) -> None:
    """Of S and S/2 the shorter ends after S at half the rate; the longer then has S/2 to go."""
    case = section(data, "unequal")
    shorter_ns = all_reduce_of_pair_ns(HALF_BYTES, sharing=2)
    longer_ns = shorter_ns + (LARGE_BYTES - HALF_BYTES) // NIC_BYTES_PER_NS
    assert case.end_ns == {0: longer_ns, 2: longer_ns, 1: shorter_ns, 3: shorter_ns}


def test_a_collective_that_comes_later_shares_from_then_on(data: RunData, work: int) -> None:
    """The first has the NIC alone until then and half of it after; so has the second, in turn."""
    case = section(data, "staggered")
    late_ns = 50 * work
    alone_ns = LARGE_BYTES // NIC_BYTES_PER_NS
    first_end_ns = 2 * BETWEEN_NS + late_ns + 2 * (alone_ns - late_ns)
    second_end_ns = first_end_ns + late_ns
    assert case.end_ns == {0: first_end_ns, 2: first_end_ns, 1: second_end_ns, 3: second_end_ns}


def test_an_end_is_rounded_up_once(data: RunData) -> None:
    """1,000,004 bytes at half of 10 bytes per ns take 200,000.8 ns: one more than 200,000."""
    case = section(data, "rounded")
    assert case.end_ns == all_alike(2 * BETWEEN_NS + 200_001)


def test_a_message_between_nodes(data: RunData) -> None:
    """Latency and size over bandwidth; who has no part in it does not wait."""
    case = section(data, "sent_across")
    sent_ns = send_between_ns(LARGE_BYTES)
    assert case.end_ns == {0: sent_ns, 1: 0, 2: sent_ns, 3: 0}


def test_a_message_waits_for_its_receiver(data: RunData, work: int) -> None:
    """Inside the nodes, where both pairs have links of their own."""
    case = section(data, "sent_inside")
    end_ns = 3 * work + send_inside_ns(ODD_BYTES)
    assert case.end_ns == all_alike(end_ns)
    for rank in RANKS:
        assert case.communication(rank) == [(3 * work * (rank % 2), end_ns)]


def test_messages_both_ways_share_nothing_but_the_nic(data: RunData, work: int) -> None:
    """Two pairs, each both ways: directions are independent, equal flows halve the rate."""
    case = section(data, "both_ways")
    large_ns = send_between_ns(LARGE_BYTES, sharing=2)
    odd_ns = send_between_ns(ODD_BYTES, sharing=2)
    assert case.end_ns == all_alike(large_ns + work)
    for rank in RANKS:
        peer = (rank + 2) % 4
        here_ns, there_ns = (large_ns, odd_ns) if rank < 2 else (odd_ns, large_ns)
        assert case.communication(rank, sender=rank) == [(0, here_ns)]
        assert case.communication(rank, sender=peer) == [(0, there_ns)]


def test_reading_a_value_back_waits_for_the_device(data: RunData, work: int) -> None:
    """Each item() adds a copy behind the kernels before it, and the next kernels start after it."""
    case = section(data, "read_back")
    turn_ns = 10 * work + READ_BACK_NS
    assert case.end_ns == all_alike(3 * turn_ns)
    for rank in RANKS:
        assert case.copies(rank) == [
            (turn * turn_ns + 10 * work, (turn + 1) * turn_ns) for turn in range(3)
        ]
        assert [start for start, _ in case.kernels(rank, WORK)[::10]] == [0, turn_ns, 2 * turn_ns]
