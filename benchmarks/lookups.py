"""Batches with given statistics, and hit rates of a cache, against what they should be.

    python benchmarks/lookups.py [LOCALITY_STATS ...]

Prints the two tables of docs/recommendation.md: how far the histograms of generated batches are
from those asked for, and how far hit rates are from those of an exact LRU cache, with the uniform
rule as control. LOCALITY_STATS: the files of that name of facebookresearch/dlrm_datasets; without
them the three histograms of tests/lookups/published_reuse.py are tried.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/lookups"))
from exact_lru import drawn, measured
from published_reuse import PUBLISHED

from sim_server.lookups import Lookups, ReuseHistogram, Share, hit_rates
from sim_server.lookups.distributions import uniform, zipf
from sim_server.lookups.generator import occurrences_of
from sim_server.lookups.histogram import BINS, bin_of, histogram_of

_PART = 64  # of the published lookups, so that a batch fits into memory
_ROWS = (10_000, 100_000, 500_000, 2_000_000)
_EXPONENTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
_CAPACITIES = (2_000, 6_000, 20_000)
_LOOKUPS = 40_000
_WARM_UP = 4 * _LOOKUPS
_GROUPS = 30

Group = list[tuple[int, float, float]]
"""Tables that take turns: rows, exponent, share of the lookups."""


def main() -> None:
    """Prints both tables."""
    files = [Path(name) for name in sys.argv[1:]]
    published = dict(pair for path in files for pair in _read(path)) if files else PUBLISHED
    print("generated batches                       L1 of lookups   L1 of rows   distinct rows")
    _print_batches("published", {name: _part(whole) for name, whole in published.items()})
    _print_batches("tables of 3 to 10^6 rows", dict(_drawn_batches()))
    print(
        "\nerror of the hit rate          from the distribution   the histogram   control: uniform"
    )
    singles: list[Group] = [[(*one, 1.0)] for one in itertools.product(_ROWS, _EXPONENTS)]
    groups = [_group(np.random.default_rng(seed)) for seed in range(_GROUPS)]
    for title, cases in (("one table", singles), ("several that take turns", groups)):
        _print_hit_rates(title, cases)


def _read(path: Path) -> Iterator[tuple[str, ReuseHistogram]]:
    for block in re.split(r"\n(?=fbgemm)", path.read_text(encoding="utf-8")):
        shares = [float(one) for one in re.findall(r"^\(\d+(?:, \d+\]|\+): (\S+)$", block, re.M)]
        lookups, distinct = (
            int(one) for one in re.findall(r"^Avg # of (?:indices|unique cols): (\d+)", block, re.M)
        )
        name = block.split(".pt")[0]
        yield (
            name,
            ReuseHistogram(lookups, distinct, tuple(shares[:BINS]), tuple(shares[BINS:])),
        )


def _part(whole: ReuseHistogram) -> ReuseHistogram:
    return dataclasses.replace(
        whole, lookups=round(whole.lookups / _PART), distinct=round(whole.distinct / _PART)
    )


def _drawn_batches() -> Iterator[tuple[str, ReuseHistogram]]:
    grid = itertools.product((3, 30, 300, 10_000, 1_000_000), (0.0, 0.6, 1.0, 1.4))
    for (rows, exponent), lookups in itertools.product(grid, (50, 1_000, 20_000, 300_000)):
        keys = drawn(rows, exponent, lookups, np.random.default_rng(1))
        yield f"{rows} rows, exponent {exponent}, {lookups} lookups", histogram_of(keys)


def _print_batches(title: str, asked: dict[str, ReuseHistogram]) -> None:
    errors = np.array([_distances(one) for one in asked.values()])
    for what, values in (
        ("median", np.median(errors, axis=0)),
        ("p90", np.quantile(errors, 0.9, axis=0)),
        ("worst", errors.max(axis=0)),
    ):
        lookups, rows, distinct = values
        label = f"{title}, {what} of {len(errors)}"
        print(f"{label:40}{lookups:13.4f}{rows:13.4f}{distinct:15.2%}")
    print(f"  worst: {list(asked)[int(errors[:, 0].argmax())]}", flush=True)


def _distances(asked: ReuseHistogram) -> tuple[float, float, float]:
    """L1 of the lookups' and the rows' shares, and the error of the distinct rows."""
    assert asked.masses is not None
    lookups = int(asked.lookups)
    random = np.random.default_rng(0)
    occurrences = occurrences_of(asked, lookups, int(asked.distinct * 3), random)
    bins = bin_of(occurrences)
    masses = np.bincount(bins, weights=occurrences, minlength=BINS) / lookups
    rows = np.bincount(bins, minlength=BINS) / len(occurrences)
    return (
        float(np.abs(masses - asked.masses).sum()),
        float(np.abs(rows - asked.rows).sum()),
        abs(len(occurrences) / asked.distinct - 1),
    )


def _group(random: np.random.Generator) -> Group:
    """2 to 5 tables over the whole range."""
    count = int(random.integers(2, 6))
    turns = random.integers(1, 5, count)
    return [
        (
            int(np.exp(random.uniform(np.log(_ROWS[0]), np.log(_ROWS[-1])))),
            float(random.uniform(_EXPONENTS[0], _EXPONENTS[-1])),
            float(turn / turns.sum()),
        )
        for turn in turns
    ]


def _print_hit_rates(title: str, cases: list[Group]) -> None:
    for warm in (False, True):
        errors = np.array(
            [error for seed, case in enumerate(cases) for error in _errors(case, seed, warm)]
        )
        label = f"{title}, {'warm' if warm else 'cold'}"
        print(
            f"{label:31}"
            + "   ".join(
                f"mean {mean:.4f} worst {worst:.4f}"
                for mean, worst in zip(errors.mean(axis=0), errors.max(axis=0), strict=True)
            )
            + f"   ({len(errors)} hit rates)",
            flush=True,
        )


def _errors(case: Group, seed: int, warm: bool) -> Iterator[list[float]]:
    """Of each capacity and table: by the distribution, by the histogram, as if uniform."""
    first = _WARM_UP if warm else 0
    random = np.random.default_rng(seed)
    which = random.choice(len(case), first + _LOOKUPS, p=[share for *_, share in case])
    keys = np.empty(len(which), dtype=np.int64)
    for number, (rows, exponent, _) in enumerate(case):
        mine = which == number
        keys[mine] = drawn(rows, exponent, int(mine.sum()), random)
    known: list[list[Lookups]] = [
        [zipf(rows, exponent) for rows, exponent, _ in case],
        [
            histogram_of(keys[first:][which[first:] == number]).occurrences(rows)
            for number, (rows, *_) in enumerate(case)
        ],
        [uniform(rows) for rows, *_ in case],
    ]
    for capacity in _CAPACITIES:
        truth = measured(which.tolist(), keys.tolist(), capacity, first)
        found = [
            hit_rates(
                [Share(one, _LOOKUPS * case[n][2], 1) for n, one in enumerate(tables)],
                capacity,
                warm,
            )
            for tables in known
        ]
        yield from np.abs(np.array(found) - truth).T.tolist()


if __name__ == "__main__":
    main()
