"""The lookup model: what memory and caches move, and which way each property of a table pulls."""

from __future__ import annotations

import dataclasses

import pytest

from sim_server.gpu import load_gpu
from sim_server.kernels import Tier
from sim_server.kernels.lookup import LookupModel, TableLookups
from sim_server.lookups import read_lookups
from sim_server.lookups.distributions import uniform, zipf

_ROWS = 10_000_000
_SAMPLES = 4096
_ONE = TableLookups(uniform(_ROWS), _SAMPLES, _SAMPLES * 20, 128)


def _model(gpu: str = "a100") -> LookupModel:
    return LookupModel(load_gpu(gpu))


def test_rows_that_never_repeat_come_from_memory() -> None:
    """Of a large table looked up uniformly, memory moves each row, index and output: by hand."""
    (time,) = _model().forward([_ONE])
    by_hand = _ONE.lookups * (128 * 4 + 8) + _SAMPLES * (128 * 4 + 8)
    assert time.memory_bytes == pytest.approx(by_hand, rel=0.01)
    assert time.duration_ns == pytest.approx(by_hand / (2039 * 0.88 * 0.93), rel=0.01)
    assert time.hit_rate < 0.01


def test_rows_that_repeat_cost_less() -> None:
    """The steeper the distribution, the higher the hit rate and the shorter both passes."""
    times = []
    for exponent in (0.0, 0.6, 0.9, 1.2):
        one = dataclasses.replace(_ONE, table=zipf(_ROWS, exponent))
        (forward,), (backward,) = _model().forward([one]), _model().backward([one])
        times.append((forward.hit_rate, forward.duration_ns, backward.duration_ns))
    rates, forwards, backwards = zip(*times, strict=True)
    assert list(rates) == sorted(rates)
    assert list(forwards) == sorted(forwards, reverse=True)
    assert list(backwards) == sorted(backwards, reverse=True)
    assert rates[-1] > 0.8
    assert forwards[0] / forwards[-1] > 1.5


def test_a_larger_cache_holds_more() -> None:
    """H100's L2 cache, a quarter larger, has the higher hit rate."""
    one = dataclasses.replace(_ONE, table=zipf(_ROWS, 0.9), lookups=_SAMPLES * 100)
    (small,), (large,) = _model("a100").forward([one]), _model("h100").forward([one])
    assert large.hit_rate > small.hit_rate
    assert large.duration_ns < small.duration_ns


def test_tables_in_flight_share_the_cache() -> None:
    """Few samples keep several tables in flight, and each finds less; many keep one."""
    model = _model()
    assert model.in_flight(100_000, 8) == 1
    assert model.in_flight(1_000, 8) == 5
    assert model.in_flight(10, 8) == 8
    one = dataclasses.replace(_ONE, table=zipf(200_000, 0.2), lookups=_SAMPLES * 100)
    alone = model.forward([one] * 4, 1)
    together = model.forward([one] * 4, 4)
    assert all(a.hit_rate > b.hit_rate + 0.02 for a, b in zip(alone, together, strict=True))


def test_narrow_rows_take_longer_than_their_bytes() -> None:
    """A row of 16 elements costs more than a quarter of one of 64."""
    (wide,) = _model().forward([dataclasses.replace(_ONE, dim=128)])
    (narrow,) = _model().forward([dataclasses.replace(_ONE, dim=16)])
    assert narrow.duration_ns > wide.duration_ns / 128 * 16 * 1.4


def test_what_the_optimizer_keeps_is_moved() -> None:
    """Adam's two moments cost more than row-wise Adagrad's number, and that more than nothing."""
    times = [
        _model().backward([dataclasses.replace(_ONE, optimizer=name)])[0].duration_ns
        for name in ("sgd", "rowwise_adagrad", "adam")
    ]
    assert times == sorted(set(times))


def test_one_row_that_all_ask_for() -> None:
    """The sum of a row that every lookup names is joined by atomics, which bound its pass."""
    one = dataclasses.replace(_ONE, table=uniform(1), lookups=10**8)
    (time,) = _model().backward([one])
    assert time.duration_ns > (10**8 / 1024 - 1) * 4.0


def test_tiers_and_intervals() -> None:
    """Known statistics are modelled, unknown ones assumed with a wider interval."""
    model = _model()
    known = model.timing(model.forward([_ONE]), "forward")
    table = read_lookups(None, _ROWS, "a")
    unknown = model.timing(model.forward([dataclasses.replace(_ONE, table=table)]), "forward")
    assert (known.tier, unknown.tier) == (Tier.MODELLED, Tier.ASSUMED)
    assert known.interval is not None
    assert unknown.interval is not None
    assert unknown.interval.high > known.interval.high > 1


def test_no_lookups() -> None:
    """A table that nobody asks takes no more than its empty output."""
    one = dataclasses.replace(_ONE, lookups=0.0)
    model = _model()
    assert model.forward([one])[0].memory_bytes == _SAMPLES * (128 * 4 + 8)
    assert model.backward([one])[0].duration_ns == 0
