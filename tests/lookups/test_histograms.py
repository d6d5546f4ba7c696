"""Reuse histograms: what they say of a batch, of parts of it, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from exact_lru import drawn
from published_reuse import PUBLISHED

from sim_server.errors import UsageError
from sim_server.lookups import ReuseHistogram, read_lookups
from sim_server.lookups.distributions import shifted_zipf, zipf
from sim_server.lookups.generator import Generator
from sim_server.lookups.histogram import bin_of, histogram_of
from sim_server.lookups.pooling import read_pooling

_SCALE = 1 / 64
_FLAT = [1.0] + [0.0] * 16


def test_the_bins() -> None:
    """Once, twice, up to 4, up to 8; the last holds all above 32,768."""
    occurrences = [1, 2, 3, 4, 5, 8, 9, 32_768, 32_769, 10**9]
    assert bin_of(occurrences).tolist() == [0, 1, 2, 2, 3, 3, 4, 15, 16, 16]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_histograms(name: str) -> None:
    """A generated batch has the published shares of rows and of lookups within what three decimals
    leave open (L1 of 0.005), and all distinct rows. The lookups are a 64th of the published number.
    """
    whole = PUBLISHED[name]
    part = dataclasses.replace(
        whole, lookups=round(whole.lookups * _SCALE), distinct=round(whole.distinct * _SCALE)
    )
    rows = int(part.distinct * 3)
    indices = Generator(part, rows, read_pooling(1)).indices(int(part.lookups))
    found = histogram_of(indices)
    assert found.lookups == part.lookups
    assert found.distinct == pytest.approx(part.distinct, rel=1e-4)
    assert np.abs(np.subtract(found.rows, part.rows)).sum() <= 0.005
    assert found.masses is not None
    assert part.masses is not None
    assert np.abs(np.subtract(found.masses, part.masses)).sum() <= 0.005
    assert indices.min() >= 0
    assert indices.max() < rows


@pytest.mark.parametrize("rows", [3, 300, 10_000, 1_000_000])
@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.4])
def test_histograms_of_tables_of_all_sizes(rows: int, exponent: float) -> None:
    """A batch with the statistics of another has its rows in the same bins, and its lookups, also
    where a table or a bin has few rows. One of four times the lookups has the rows that the
    working set has.
    """
    for lookups in (50, 1_000, 20_000):
        before = histogram_of(drawn(rows, exponent, lookups, np.random.default_rng(1)))
        generator = Generator(before, rows, read_pooling(1))
        after = histogram_of(generator.indices(lookups))
        assert after.distinct == before.distinct
        assert after.rows == pytest.approx(before.rows, abs=1e-3)
        assert after.masses == pytest.approx(before.masses, abs=1e-3)
        more = before.occurrences(rows).distinct(4 * lookups)
        assert len(np.unique(generator.indices(4 * lookups))) == pytest.approx(more, abs=1)


def test_rounded_shares_keep_their_lookups() -> None:
    """A share of rows that three decimals hold badly gives way to that of the bin's lookups, and
    one that is exact stays.
    """
    exact = ReuseHistogram(3_600, 2_000, (0.5, 0.3, 0.2, *14 * (0.0,)))
    assert exact.counts().tolist() == [1_000, 600, 400, *14 * [0]]
    # 600 rows of 650 lookups each are published as 0.001 of 10^6, which would be 1,000 rows.
    rounded = ReuseHistogram(
        1_389_400,
        1_000_000,
        (0.999, *9 * (0.0,), 0.001, *6 * (0.0,)),
        (0.719, *9 * (0.0,), 0.281, *6 * (0.0,)),
    )
    counts = rounded.counts()
    assert 500 <= counts[10] <= 800
    assert counts[10] * rounded.means(counts)[10] == pytest.approx(390_000, rel=0.01)


def test_distinct_rows_of_parts_of_a_batch() -> None:
    """A histogram gives the distinct rows of a part of its batch, and of four times as much within
    a tenth.
    """
    keys = drawn(1_000_000, 0.9, 200_000, np.random.default_rng(0))
    known = histogram_of(keys[:50_000]).occurrences(1_000_000)
    for lookups, tolerance in ((5_000, 0.03), (25_000, 0.02), (50_000, 1e-6), (200_000, 0.1)):
        truth = len(np.unique(keys[:lookups]))
        assert known.distinct(lookups) == pytest.approx(truth, rel=tolerance), lookups


def test_batches_share_rows_as_asked() -> None:
    """Of a batch's rows the share that was asked for was in the batch before."""
    statistics = ReuseHistogram(3_600, 2_000, (0.5, 0.3, 0.2, *14 * (0.0,)))
    generator = Generator(statistics, 1_000_000, read_pooling(4), seed=3, correlation=0.4)
    before, after = (set(generator.indices(3_600).tolist()) for _ in range(2))
    assert len(before & after) / len(before) == pytest.approx(0.4, abs=0.01)
    # A small table has no other rows to offer.
    small = Generator(statistics, 2_000, read_pooling(4), correlation=0.4)
    assert {*small.indices(3_600).tolist()} == {*small.indices(3_600).tolist()}


def test_pooling_factors() -> None:
    """Means are kept, and a batch has as many indices as its lengths say."""
    random = np.random.default_rng(0)
    for spec in (2.5, {"kind": "poisson", "mean": 7}, {"kind": "geometric", "mean": 3}):
        pooling = read_pooling(spec)
        assert pooling.lengths(50_000, random).mean() == pytest.approx(pooling.mean, rel=0.03)
    weighted = read_pooling({"kind": "values", "values": [0, 1, 9], "weights": [1, 1, 2]})
    batch = Generator(zipf(5_000, 1.05), 5_000, weighted).batch(1_000)
    assert set(batch.lengths.tolist()) == {0, 1, 9}
    assert batch.offsets[-1] == len(batch.indices)


def test_seeds() -> None:
    """Equal seeds give equal batches, others do not."""

    def indices(seed: int) -> list[int]:
        return list(Generator(zipf(1_000, 1.0), 1_000, read_pooling(1), seed).indices(100))

    assert indices(1) == indices(1) != indices(2)


def test_drawn_rows_follow_the_distribution() -> None:
    """Zipf's and FBGEMM's lookups: distinct rows of a batch as the working set says."""
    for statistics in (zipf(300_000, 1.1), shifted_zipf(300_000, 1.2, 50, (0.2, 0.1))):
        indices = Generator(statistics, 300_000, read_pooling(1)).indices(30_000)
        assert len(np.unique(indices)) == pytest.approx(statistics.distinct(30_000), rel=0.02)
        most = np.unique(indices, return_counts=True)[1].max()
        assert most == pytest.approx(statistics.most_frequent(30_000), rel=0.05)


def _histogram(**changes: object) -> dict[str, object]:
    return {
        "kind": "histogram",
        "lookups": 100,
        "distinct": 100,
        "shares": _FLAT,
    } | changes


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "gauss"}, "no lookups of kind 'gauss'"),
        ({"kind": "zipf"}, "exponent is missing"),
        ({"kind": "zipf", "exponent": -1}, "at least 0, not -1"),
        ({"kind": "zipf", "exponent": float("nan")}, "not nan"),
        ({"kind": "zipf", "exponent": 1e5}, "exponent must be at most 100"),
        ({"kind": "tbe", "s": 1, "heavy_hitters": [0.0] * 1000}, "none has a probability"),
        ({"kind": "zipf", "exponent": 1, "alpha": 1}, "have no 'alpha'"),
        ({"kind": "tbe", "s": 1, "heavy_hitters": [0.7, 0.7]}, "sum of 1.4"),
        (_histogram(shares=[1.0]), "has 1 bins"),
        (_histogram(shares=[-0.5, 1.5] + [0.0] * 15), "at least 0"),
        (_histogram(shares=[0.5] + [0.0] * 16), "sum to 0.5"),
        (_histogram(distinct=200), "no more than lookups"),
        (_histogram(lookups=1000), "has 100 to 100 lookups, not 1000"),
        (_histogram(lookups=1e9, distinct=1e9), "1e+09 distinct rows of a table of 1000 rows"),
        ("zipf", "must be an object"),
    ],
)
def test_bad_statistics_are_named(spec: object, message: str) -> None:
    """Each refusal names the table and what is wrong."""
    with pytest.raises(UsageError, match="table a") as error:
        read_lookups(spec, 1000, "table a")  # type: ignore[arg-type]
    assert message in str(error.value)
