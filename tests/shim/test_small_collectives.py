"""Small collectives carry real data between rank processes, and say when they cannot."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from collective_values import AVG, COUNT, ELEMENT_BYTES, F32, MAX, MIN, PROD, SUM, integers
from stand_in_agent import StandInAgent, write_settings

from phantora_py.libraries import preload_list, shim_directory

RANKS = 4
SYNTHETIC_READ = 51
NCCL_LAUNCH, NCCL_OP = 24, 25
INVALID_ARGUMENT = 4


class Run:
    """What the ranks of one scenario printed, and their records."""

    def __init__(self, scenario: str, run_dir: Path, ranks: int = RANKS) -> None:
        write_settings(run_dir, ranks)
        agent = StandInAgent(run_dir, ranks)
        try:
            processes = [_start(scenario, run_dir, rank, ranks) for rank in range(ranks)]
            ended = [(p.communicate(timeout=60), p.returncode) for p in processes]
        finally:
            agent.close()
        for (_, errors), code in ended:
            assert code == 0, errors
        self.results = [json.loads(output) for (output, _), _ in ended]
        self.records = agent.records

    def everywhere(self, name: str) -> str:
        """A result that all ranks must agree on."""
        values = {result[name] for result in self.results}
        assert len(values) == 1, values
        return str(values.pop())

    def of_kind(self, rank: int, kind: int) -> list[bytes]:
        """The records of one kind."""
        return [record for record in self.records[rank] if record[0] == kind]


def _start(scenario: str, run_dir: Path, rank: int, ranks: int) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(map(str, preload_list(shim_directory()))),
        "PHANTORA_RUN_DIR": str(run_dir),
        "PHANTORA_RANK": str(rank),
        "RANKS": str(ranks),
    }
    command = [sys.executable, str(Path(__file__).with_name("collectives_rank.py")), scenario]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def chunk(rank: int, index: int) -> str:
    """Chunk `index` of rank `rank` in the scenario `movements`."""
    return f"{16 * rank + index:02x}" * COUNT


def test_reductions_are_right_in_every_type(tmp_path: Path) -> None:
    """Rank r holds r and r + 1; all ranks read the same reduced bits in all types."""
    run = Run("reductions", tmp_path)
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
    run = Run("movements", tmp_path)
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
    run = Run("groups", tmp_path)
    for rank, result in enumerate(run.results):
        assert result["all_to_all"] == "".join(chunk(r, rank) for r in range(RANKS))
        (launch,) = run.of_kind(rank, NCCL_LAUNCH)
        assert struct.unpack_from("<Q", launch, 24) == (2 * RANKS,)


def test_unknown_contribution_makes_exactly_its_results_unknown(tmp_path: Path) -> None:
    """A sum over unknown bytes reads as zeros and is recorded; gathered chunks are apart."""
    run = Run("unknown", tmp_path)
    assert run.everywhere("reduced") == "00" * COUNT
    assert run.everywhere("gathered") == "00" * COUNT + "07" * COUNT * (RANKS - 1)
    assert run.everywhere("before_large") == "aa" * 8
    assert run.everywhere("after_large") == "00" * 8
    for rank in range(RANKS):
        reads = [struct.unpack_from("<Q", r, 24)[0] for r in run.of_kind(rank, SYNTHETIC_READ)]
        assert reads == [8, COUNT, COUNT]


def test_premultiplied_sum(tmp_path: Path) -> None:
    """Factors from the host and from the device scale each rank's own contribution."""
    run = Run("premultiplied", tmp_path)
    factor = sum(range(1, RANKS + 1))
    wanted = struct.pack(f"<{COUNT}f", *(factor * (1 + i) for i in range(COUNT)))
    assert run.everywhere("sum") == wanted.hex()
    assert run.everywhere("after_destroy") == str(INVALID_ARGUMENT)


def test_split_orders_by_key(tmp_path: Path) -> None:
    """Colours separate, keys order, no colour gives no communicator."""
    run = Run("halves", tmp_path)
    places = [result["place"] for result in run.results]
    assert places == ["1 of 2", "1 of 2", "0 of 2", "0 of 2"]
    sums = [struct.unpack("<q", bytes.fromhex(result["sum"]))[0] for result in run.results]
    assert sums == [2, 4, 2, 4]
    assert run.everywhere("none") == "None"
    assert run.everywhere("destroyed") == str(INVALID_ARGUMENT)


def test_bfloat16_accumulates_in_float(tmp_path: Path) -> None:
    """256 + 1 + 1 + 1 is rounded once, to 260."""
    assert Run("bfloat16_rounding", tmp_path).everywhere("sum") == struct.pack("<f", 260)[2:].hex()


@pytest.mark.parametrize("ranks", [2, 12])
def test_rank_that_ends_early_has_sent_everything(tmp_path: Path, ranks: int) -> None:
    """Senders end at once; a receiver that asks later still gets all bytes, in any order."""
    run = Run("early_exit", tmp_path, ranks)
    assert run.results[-1] == {str(peer): "True" for peer in range(ranks - 1)}
