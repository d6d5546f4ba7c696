"""Small collectives carry real data between rank processes, and say when they cannot."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from collective_values import AVG, COUNT, ELEMENT_BYTES, F32, INT64, MAX, MIN, PROD, SUM, integers
from rank_runs import RankRun
from stand_in_agent import StandInAgent

RANKS = 4
NCCL_LAUNCH, NCCL_OP, WAIT, RESUME = 24, 25, 32, 9
SENDS_VALUES = 1
ASIDE_AT, AWAITING_VALUES_AT = 24, 48  # in a channel
INVALID_ARGUMENT = 4


def run_ranks(scenario: str, run_dir: Path, ranks: int = RANKS) -> RankRun:
    """A scenario of collectives_rank.py."""
    return RankRun("collectives_rank.py", scenario, run_dir, ranks)


def chunk(rank: int, index: int) -> str:
    """Chunk `index` of rank `rank` in the scenario `movements`."""
    return f"{16 * rank + index:02x}" * COUNT


class AsideAgent(StandInAgent):
    """Sets rank 1 aside when it waits for values."""

    def __init__(self, run_dir: Path, ranks: int) -> None:
        self._said = run_dir / "aside"
        super().__init__(run_dir, ranks)

    def _ring_next(self, rank: int) -> None:
        super()._ring_next(rank)
        channel = self._channels[rank]
        if rank == 1 and channel[AWAITING_VALUES_AT] and not self._said.exists():
            channel[ASIDE_AT] = 1
            self._said.touch()


def issued_ns(run: RankRun, rank: int, kind: int) -> int:
    """The host clock at the last record of a kind, where no answer has moved it."""
    records = run.records[rank]
    last = max(number for number, one in enumerate(records) if one[0] == kind)
    return sum(struct.unpack_from("<Q", one, 8)[0] for one in records[: last + 1])


@pytest.mark.parametrize("scenario", ["late_values", "late_values_at_leisure"])
def test_a_rank_that_was_set_aside_says_when_its_values_were_sent(
    tmp_path: Path, scenario: str
) -> None:
    """By the rank that was the last: rank 0, which collects them, was earlier. Of two values the
    later counts, whether it had come when the rank asked or not.
    """
    run = RankRun("collectives_rank.py", scenario, tmp_path, 3, agent=AsideAgent)
    assert run.everywhere("0") == run.everywhere("1") == integers(INT64, 3, 1).hex()
    resumed = [
        struct.unpack_from("<Q", one, 24)[0]
        for one in run.of_kind(1, WAIT)
        if struct.unpack_from("<I", one, 16)[0] == RESUME
    ]
    assert resumed == [issued_ns(run, 2, NCCL_LAUNCH)]
    assert resumed[0] > issued_ns(run, 0, NCCL_LAUNCH)
    assert [launch[1] for launch in run.of_kind(0, NCCL_LAUNCH)] == [SENDS_VALUES] * 2


def test_reductions_are_right_in_every_type(tmp_path: Path) -> None:
    """Rank r holds r and r + 1; all ranks read the same reduced bits in all types."""
    run = run_ranks("reductions", tmp_path)
    first = range(RANKS)
    second = range(1, RANKS + 1)
    expected = {
        SUM: (sum(first), sum(second)),
        PROD: (math.prod(first), math.prod(second)),
        MAX: (max(first), max(second)),
        MIN: (min(first), min(second)),
    }
    for dtype in ELEMENT_BYTES:
        for operation, (a, b) in expected.items():
            # 24 = 4! fits in three mantissa bits; 10 does not fit in two.
            wanted = integers(dtype, a, 1) + integers(dtype, b, 1)
            assert run.everywhere(f"{dtype}.{operation}") == wanted.hex(), (dtype, operation)
    assert run.everywhere(f"{F32}.{AVG}") == struct.pack("<2f", 1.5, 2.5).hex()
    assert run.everywhere(f"2.{AVG}") == struct.pack("<2i", 1, 2).hex()


def test_operations_move_the_right_chunks(tmp_path: Path) -> None:
    """Each operation puts each rank's chunks where NCCL's documentation says; the rest is kept."""
    run = run_ranks("movements", tmp_path)
    root = RANKS - 1
    kept = "ff" * COUNT
    every = range(RANKS)

    def summed(index: int) -> str:
        return f"{sum(16 * r + index for r in every) % 256:02x}" * COUNT

    for rank, result in enumerate(run.results):
        at_root = rank == root
        empty = kept * RANKS
        assert result["broadcast"] == chunk(root, 0) + kept * (RANKS - 1)
        assert result["bcast"] == chunk(root, 0) + "".join(chunk(rank, i) for i in every[1:])
        assert result["reduce"] == (summed(0) + kept * (RANKS - 1) if at_root else empty)
        assert result["all_gather"] == "".join(chunk(r, 0) for r in every)
        assert result["reduce_scatter"] == summed(rank) + kept * (RANKS - 1)
        assert result["all_to_all"] == "".join(chunk(r, rank) for r in every)
        assert result["gather"] == ("".join(chunk(r, 0) for r in every) if at_root else empty)
        assert result["scatter"] == chunk(root, rank) + kept * (RANKS - 1)
        sequences = [struct.unpack_from("<5Q", r, 24)[4] for r in run.of_kind(rank, NCCL_OP)]
        assert sequences == list(range(8))


def test_group_is_one_launch_without_deadlock(tmp_path: Path) -> None:
    """Receives before sends in a group: every chunk arrives, and one launch holds the group."""
    run = run_ranks("groups", tmp_path)
    for rank, result in enumerate(run.results):
        assert result["all_to_all"] == "".join(chunk(r, rank) for r in range(RANKS))
        (launch,) = run.of_kind(rank, NCCL_LAUNCH)
        assert struct.unpack_from("<Q", launch, 24) == (2 * RANKS,)


def test_more_may_be_sent_than_is_taken(tmp_path: Path) -> None:
    """What comes is unknown, and nothing beside it is changed: that the ends do not match is for
    the server to say.
    """
    run = run_ranks("unequal_ends", tmp_path, 2)
    assert run.results[1]["received"] == "00" * 4 + "ff" * 4
    assert [run.synthetic_bytes(rank) for rank in range(2)] == [[], [4]]


def test_unknown_contribution_makes_exactly_its_results_unknown(tmp_path: Path) -> None:
    """A sum over unknown bytes reads as zeros and is recorded; gathered chunks are apart."""
    run = run_ranks("unknown", tmp_path)
    assert run.everywhere("reduced") == "00" * COUNT
    assert run.everywhere("gathered") == "00" * COUNT + "07" * COUNT * (RANKS - 1)
    assert run.everywhere("before_large") == "aa" * 8
    assert run.everywhere("after_large") == "00" * 8
    for rank in range(RANKS):
        assert run.synthetic_bytes(rank) == [8, COUNT, COUNT]


def test_premultiplied_sum(tmp_path: Path) -> None:
    """Factors from the host and from the device scale each rank's own contribution."""
    run = run_ranks("premultiplied", tmp_path)
    factor = sum(range(1, RANKS + 1))
    wanted = struct.pack(f"<{COUNT}f", *(factor * (1 + i) for i in range(COUNT)))
    assert run.everywhere("sum") == wanted.hex()
    assert run.everywhere("after_destroy") == str(INVALID_ARGUMENT)


def test_split_orders_by_key(tmp_path: Path) -> None:
    """Colours separate, keys order, no colour gives no communicator."""
    run = run_ranks("halves", tmp_path)
    places = [result["place"] for result in run.results]
    assert places == ["1 of 2", "1 of 2", "0 of 2", "0 of 2"]
    sums = [struct.unpack("<q", bytes.fromhex(result["sum"]))[0] for result in run.results]
    assert sums == [2, 4, 2, 4]
    assert run.everywhere("none") == "None"
    assert run.everywhere("destroyed") == str(INVALID_ARGUMENT)


def test_bfloat16_accumulates_in_float(tmp_path: Path) -> None:
    """256 + 1 + 1 + 1 is rounded once, to 260."""
    assert (
        run_ranks("bfloat16_rounding", tmp_path).everywhere("sum")
        == struct.pack("<f", 260)[2:].hex()
    )


def test_communicators_in_opposite_order(tmp_path: Path) -> None:
    """On streams of their own both collectives end on hardware; so do their values."""
    run = run_ranks("opposite_orders", tmp_path)
    wanted = integers(INT64, sum(range(RANKS)), 1).hex()
    assert (run.everywhere("0"), run.everywhere("1")) == (wanted, wanted)


def test_what_a_waiting_collective_does_not_touch_can_be_read(tmp_path: Path) -> None:
    """Its peers come only after rank 0 has read it."""
    run = run_ranks("unrelated_reads", tmp_path)
    wanted = integers(INT64, sum(range(RANKS)), 1).hex()
    assert (run.everywhere("first"), run.everywhere("second")) == (wanted, wanted)
    assert run.results[0]["read"] == integers(INT64, 0, 1).hex()


def test_a_copy_of_pinned_memory_waits_for_a_function_of_the_host(tmp_path: Path) -> None:
    """The function runs behind a collective whose peers come later, and before the copy."""
    assert run_ranks("host_function", tmp_path).everywhere("copied") == "22" * 8


@pytest.mark.parametrize("ranks", [2, 12])
def test_rank_that_ends_early_has_sent_everything(tmp_path: Path, ranks: int) -> None:
    """Senders end at once; a receiver that asks later still gets all bytes, in any order."""
    run = run_ranks("early_exit", tmp_path, ranks)
    assert run.results[-1] == {str(peer): "True" for peer in range(ranks - 1)}
