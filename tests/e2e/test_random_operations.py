"""Random numbers of CUDA generators: what hardware prints, what its kernels' sources say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import random_kernels as kernels
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

CHANCES = [kernels.to_single(one) for one in (0.1, 0.2, 0.3, 0.4)]
COUNTS = (1, 7, 8, 16, 300)
# What `torch.manual_seed(0)` and then `torch.rand` on a GPU give, to four places. MMDetection3D,
# tests/test_models/test_heads/test_dense_heads (boxes of `torch.rand(5, 7)`); TensorRT-LLM,
# tests/unittest/trt/model/redrafter; many threads have the first ten.
HARDWARE_UNIFORM = """
0.3990 0.5167 0.0249 0.9401 0.9459 0.7967 0.4150 0.8203 0.2290 0.9096 0.1183 0.0752 0.4092 0.9601
0.2093 0.1940 0.8909 0.4387 0.3570 0.5454 0.8299 0.2099 0.7684 0.4290 0.2117 0.6606 0.1654 0.4250
0.9927 0.6964 0.2472 0.7028 0.7494 0.9303 0.0494
"""
# The next call, in the same threads.
HARDWARE_UNIFORM_AGAIN = [0.9722, 0.7910, 0.4690, 0.3300]
# `torch.randint` after the same seed: TensorRT-LLM's test_gather_beams gathers rows of the first by
# the second, and says what comes of it.
GATHERED = [
    [[53, 4, 3, 33], [53, 4, 3, 33], [41, 97, 91, 72]],
    [[98, 84, 78, 8], [12, 57, 51, 75], [98, 84, 78, 8]],
]
GATHERED_NUMBERS = [[97, 97, 41], [72, 4, 72]]
UNKNOWN = ("normal", "exponential", "fused or not", "of a graph")
SEEDED_BY_THE_MACHINE = ("unseeded", "after seed", "after cuda.seed", "of a random generator")


@pytest.fixture(scope="module")
def lines(phantora: Phantora) -> list[tuple[str, Any]]:
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "random_operations.py"])
    assert run.exit_code == 0, run.errors
    lines = [tuple(json.loads(line)) for line in run.output.splitlines() if line.startswith("[")]
    check_counts(run)
    return lines


def check_counts(run: Run) -> None:
    """All reads of unknown values, and no others, are counted."""
    reads = run.summary["trust"]["unknown_reads"]
    assert sum(row["count"] for row in reads) == len(UNKNOWN), reads


@pytest.fixture(scope="module")
def found(lines: list[tuple[str, Any]]) -> dict[str, Any]:
    """The first of each name."""
    return dict(reversed(lines))


def test_the_generator() -> None:
    """Known answers of Random123 (tests/kat_vectors): the reference is Philox."""
    ones = kernels.LOW
    assert kernels.philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert kernels.philox([ones] * 4, [ones] * 2) == [
        *(0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    ]


def test_uniform_of_hardware(found: dict[str, Any]) -> None:
    expected = [float(word) for word in HARDWARE_UNIFORM.split()]
    assert [round(one, 4) for one in found["uniform"]][: len(expected)] == expected
    assert [round(one, 4) for one in found["uniform again"]] == HARDWARE_UNIFORM_AGAIN
    assert found["own generator"] == found["uniform"][:3]
    assert "Expected a 'cuda' device type for generator" in found["the CPU's generator"]


def test_integers_of_hardware(lines: list[tuple[str, Any]], found: dict[str, Any]) -> None:
    """Two calls each: the second one goes on where the first one has left the generator."""
    places = [one for name, one in lines if name == "integers below 3"][1]
    numbers = [one for name, one in lines if name == "integers"][1]
    gathered = [[row[at] for at in ats] for row, ats in zip(numbers, places, strict=True)]
    assert gathered == GATHERED_NUMBERS
    rows = zip(found["integers"], places, strict=True)
    assert [[row[at] for at in ats] for row, ats in rows] == GATHERED


def test_uniform_numbers(found: dict[str, Any]) -> None:
    single = [kernels.uniform(word) for word in kernels.elements(40)]
    assert found["uniform"] == single
    assert found["uniform half"] == [
        0.0 if kernels.to_half(one) == 1 else kernels.to_half(one) for one in single[:9]
    ]
    assert found["uniform from -1"] == [kernels.to_single(one * 2 - 1) for one in single[:9]]
    limit = kernels.to_single(0.3)
    assert found["uniform to 0.3"] == [kernels.to_single(one * limit) for one in single[:9]]
    doubles = [kernels.uniform_double(*words) for words in kernels.wide_elements(9)]
    assert found["uniform double"] == doubles


def test_integers(found: dict[str, Any]) -> None:
    assert found["integers from -5"] == [one - 5 for one in kernels.integers(9, 10)]
    assert found["large integers"] == kernels.integers(9, 1 << 40)
    second = [next(kernels.calls(thread))[1] for thread in range(5)]
    assert found["second round"] == [word % 100 for word in second]
    assert found["all bytes"] == kernels.integers(9, 256)
    assert found["all integers"] == kernels.integers(9, 1 << 63)


def test_flags(found: dict[str, Any]) -> None:
    chance = kernels.to_single(0.3)
    words = kernels.elements(300)
    assert found["flags"] == [float(kernels.uniform(word) < chance) for word in words]
    expected = [
        [
            float(kernels.uniform(word) <= one)
            for word, one in zip(next(kernels.calls(thread)), CHANCES, strict=True)
        ]
        for thread in range(3)
    ]
    assert found["flags by element"] == expected


@pytest.mark.parametrize("count", [1, 5, 10, 200])
def test_orders(found: dict[str, Any], count: int) -> None:
    assert found[f"order of {count}"] == kernels.order(count)
    assert sorted(found[f"order of {count}"]) == list(range(count))


def test_order_with_equal_keys(found: dict[str, Any]) -> None:
    """They are shuffled once more, which by this seed changes them."""
    assert found["order of 10, two equal keys"] == kernels.order(10, seed=42)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("kind", "chance", "at_once"), [("", 0.5, 4), (" halves", 0.8, 8), (" doubles", 0.8, 2)]
)
def test_dropout(found: dict[str, Any], count: int, kind: str, chance: float, at_once: int) -> None:
    kept = chance if kind == " doubles" else kernels.to_single(chance)
    mask = kernels.kept(count, kept, at_once)
    assert [one != 0 for one in found[f"dropout of {count}{kind}"]] == mask
    scale = {"": 2.0, " halves": 1.25, " doubles": 1 / 0.8}[kind]
    assert {one for one in found[f"dropout of {count}{kind}"] if one} <= {scale}


def test_choices(found: dict[str, Any]) -> None:
    assert [found["choices"]] == kernels.largest_quotients(CHANCES, 1, 3)
    assert found["a choice each"] == kernels.largest_quotients(CHANCES, 5, 1)
    assert found["choices again and again"] == kernels.places_in_sums(CHANCES, 3, 5)


def test_seeds_of_the_machine(found: dict[str, Any]) -> None:
    """Each of another seed, which is the same in every run; what is drawn with it is known."""
    seeds = [found[name][0] for name in SEEDED_BY_THE_MACHINE]
    assert len(set(seeds)) == len(seeds)
    assert max(seeds) < 1 << 53
    for seed, name in zip(seeds, SEEDED_BY_THE_MACHINE, strict=True):
        words = kernels.elements(3, seed=seed)
        assert found[name][1] == [kernels.uniform(word) for word in words], name


def test_seeds_of_ranks(phantora: Phantora) -> None:
    """Ranks have different ones, as on hardware; they follow from the rank and the draw alone."""
    run = phantora.run(["--ranks", "2"], [PROGRAMS / "seeds.py"])
    assert run.exit_code == 0, run.errors
    found = {int(word) for word in re.findall(r"seed (\d+)", run.output)}
    assert len(found) == 2
    for rank in range(2):
        words = [kernels.philox([draw, 0, 0, 0], [rank, 0]) for draw in range(32)]
        assert found & {(first << 32 | second) % (1 << 53) for first, second, *_ in words}, rank


def test_unknown_numbers(found: dict[str, Any]) -> None:
    """They read as zeros, and are counted (`check_counts`)."""
    for name in UNKNOWN:
        assert not any(found[name]), name
    assert found["seeded again"] == found["uniform"][:3]
