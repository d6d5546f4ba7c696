"""Durations from a cache: as measured, from neighbours, or modelled, in this order."""

from __future__ import annotations

import dataclasses
import random
from math import log
from statistics import median
from typing import Any

import pytest
from caches import H100, measurement, product

from sim_server.gpu import load_gpu
from sim_server.kernels import CachedTimer, Interval, KernelTimer, RecordedTimer, Tier
from sim_server.timing_cache import Entry, Environment

MODELS = KernelTimer(load_gpu("h100"))
NEW = Environment("", "", "13.2", "")


def entry(
    signature: dict[str, Any], *warm_ns: float, environment: Environment = H100, **changes: Any
) -> Entry:
    return Entry(environment, [measurement(signature, *warm_ns, **changes)])


def model_ns(signature: dict[str, Any]) -> int:
    return MODELS.time(signature).duration_ns


def test_what_was_measured_takes_its_median() -> None:
    """The warm one; the interval reaches to the cold one; the rest is the model's."""
    samples = (90_000.0, 100_000.4, 110_000.0)
    timer = CachedTimer(MODELS, [entry(product(64), *samples, cold_ns=(150_000.0,))], NEW)
    timing, model = timer.time(product(64)), MODELS.time(product(64))
    assert (timing.duration_ns, timing.tier) == (100_001, Tier.MEASURED)
    assert timing.interval is not None
    assert timing.interval.low == pytest.approx(0.91 * 0.97, rel=1e-3)
    assert timing.interval.high == pytest.approx(1.5 * 1.03, rel=1e-3)
    assert timing.interval.source == "3 samples"
    kept = ("name", "kernel_class", "sm_demand")
    assert [getattr(timing, name) for name in kept] == [getattr(model, name) for name in kept]


def test_an_empty_cache_changes_nothing() -> None:
    """Nor does one that knows other families only."""
    other = entry(product(64) | {"transa": "N"}, 1e9)
    for entries in ([], [other]):
        assert CachedTimer(MODELS, entries, NEW).time(product(64)) == MODELS.time(product(64))


def test_neighbours_correct_the_model() -> None:
    """Where all of them take half as long again as the model, so does what is between them."""
    sizes = (256, 512, 2048, 4096)
    entries = [entry(product(m), 1.5 * model_ns(product(m))) for m in sizes]
    timing = CachedTimer(MODELS, entries, NEW).time(product(1024))
    assert timing.tier is Tier.INTERPOLATED
    assert timing.duration_ns == pytest.approx(1.5 * model_ns(product(1024)), rel=1e-4)
    assert timing.interval is not None
    assert 0.8 < timing.interval.low < 1 < timing.interval.high < 1.25


def test_neighbours_are_near() -> None:
    """The nearest counts most, and beyond a factor of sixteen nobody counts."""
    near, far = entry(product(1000), 2.0 * model_ns(product(1000))), product(8)
    small = entry(product(128), 0.5 * model_ns(product(128)))
    timer = CachedTimer(MODELS, [near, small], NEW)
    assert timer.time(product(1100)).duration_ns > 1.8 * model_ns(product(1100))
    alone = CachedTimer(MODELS, [near], NEW)
    assert alone.time(far) == MODELS.time(far)


def test_neighbours_that_disagree_are_less_sure() -> None:
    """The interval has what they differ by."""

    def width(*ratios: float) -> float:
        sizes = (512, 2048)
        entries = [
            entry(product(m), ratio * model_ns(product(m)))
            for m, ratio in zip(sizes, ratios, strict=True)
        ]
        interval = CachedTimer(MODELS, entries, NEW).time(product(1024)).interval
        assert interval is not None
        return log(interval.high / interval.low)

    assert width(1.0, 1.0) == pytest.approx(width(1.2, 1.2))
    assert width(0.7, 1.4) > 2 * width(1.0, 1.0)


def test_another_version_of_cuda_is_a_neighbour() -> None:
    """Its kernels may be others: interpolated, with a wider interval; the same version wins."""
    old = dataclasses.replace(H100, cuda="12.8")
    outdated = entry(product(64), 1e5, environment=old, date="2026-09-01T00:00:00")
    timing = CachedTimer(MODELS, [outdated], NEW).time(product(64))
    assert (timing.duration_ns, timing.tier) == (100_000, Tier.INTERPOLATED)
    assert timing.interval == Interval(0.9, 1.1, "1 samples, CUDA 12.8")
    current = entry(product(64), 2e5)
    for entries in ([current, outdated], [outdated, current]):
        assert CachedTimer(MODELS, entries, NEW).time(product(64)).duration_ns == 200_000


def test_other_libraries_are_neighbours_where_both_tell() -> None:
    """A version that one side alone tells says nothing; a longer one may be the same."""
    one = entry(product(64), 1e5)  # cublas 13.4
    for libraries, tier in (
        ("torch 2.15", Tier.MEASURED),
        ("cublas 13.4.0.1", Tier.MEASURED),
        ("cublas 13.3, torch 2.15", Tier.INTERPOLATED),
    ):
        wanted = dataclasses.replace(NEW, libraries=libraries)
        timing = CachedTimer(MODELS, [one], wanted).time(product(64))
        assert timing.tier is tier
        assert timing.interval is not None
        told = ", cublas 13.4" if tier is Tier.INTERPOLATED else ""
        assert timing.interval.source == f"1 samples{told}"


def test_the_same_driver_comes_first_and_another_is_told() -> None:
    """It runs the same kernels, so the tier stays; of several that nobody asked for the newest."""
    drivers = ("570.9", "580.105.08", "575.1")
    times_ns = dict(zip(drivers, (1e5, 2e5, 3e5), strict=True))
    entries = [
        entry(product(64), times_ns[driver], environment=dataclasses.replace(H100, driver=driver))
        for driver in drivers
    ]
    assert CachedTimer(MODELS, entries, NEW).time(product(64)).duration_ns == 200_000
    wanted = dataclasses.replace(NEW, driver="570.9")
    timing = CachedTimer(MODELS, entries, wanted).time(product(64))
    assert (timing.duration_ns, timing.tier) == (100_000, Tier.MEASURED)
    other = CachedTimer(MODELS, entries, dataclasses.replace(NEW, driver="590.1"))
    assert other.time(product(64)).tier is Tier.MEASURED
    told = other.time(product(64)).interval
    assert told == Interval(0.95, 1.05, "1 samples, driver 580.105.08")


def test_what_is_added_later_is_nobodys_neighbour() -> None:
    """Its own signature takes it; the time of others does not depend on the order of arrivals."""
    timer = CachedTimer(MODELS, [], NEW)
    timer.add(entry(product(64), 1e5))
    assert timer.time(product(64)).duration_ns == 100_000
    assert timer.has(product(64), H100)
    assert timer.time(product(65)) == MODELS.time(product(65))


def test_every_kind_of_signature_has_neighbours() -> None:
    """Kernels by grid and arguments, library calls by their sizes."""
    kernel = {
        **{"kind": "kernel", "name": "_Z3addPfi", "grid": [64, 1, 1], "block": [128, 1, 1]},
        **{"shared_bytes": 0, "scalars": [[1, 8192]]},
    }
    larger = kernel | {"grid": [128, 1, 1], "scalars": [[1, 16384]]}
    attention = {
        **{"kind": "library", "library": "cudnn", "operation": "attention_forward", "type": "bf16"},
        **{"batch": 4, "heads": 16, "kv_heads": 16, "seqlen_q": 1024, "seqlen_k": 1024},
        **{"head_dim": 64, "head_dim_v": 64, "causal": 1, "dropout": 0, "bias": 0},
        "bytes": 33_554_432,
    }
    longer = attention | {"seqlen_q": 2048, "seqlen_k": 2048, "bytes": 67_108_864}
    batch = product(64) | {"batch": 8, "strides": [262144, 16777216, 262144]}
    more = product(64) | {"batch": 16, "strides": [262144, 16777216, 262144]}
    wider = product(128) | {"batch": 8, "strides": [524288, 16777216, 524288]}
    for known, asked in ((kernel, larger), (attention, longer), (batch, more), (batch, wider)):
        timer = CachedTimer(MODELS, [entry(known, 3.0 * model_ns(known))], NEW)
        timing = timer.time(asked)
        assert timing.tier is Tier.INTERPOLATED
        assert timing.duration_ns == pytest.approx(3 * model_ns(asked), rel=1e-3)
        assert timer.time(asked | {"type": "f16"} | {"name": "other"}).tier is not Tier.INTERPOLATED


@pytest.mark.parametrize(
    ("deleted", "limit"), [(0.10, 0.01), (0.25, 0.02), (0.50, 0.05), (1.00, 0.10)]
)
def test_a_cache_that_loses_entries_stays_near(deleted: float, limit: float) -> None:
    """The time of products of a transformer, over 20 seeds. The cache is synthetic: the models,
    off by up to 15 % in a way that changes slowly with size, and 3 % noise.
    """
    chance = random.Random(0)
    work = [
        (product(m, n, k), count)
        for width in (768, 1024, 1536, 2048, 3072, 4096)
        for m, n, k, count in (
            (3 * width, 8192, width, 12),
            (width, 8192, width, 12),
            (4 * width, 8192, width, 12),
            (width, 8192, 4 * width, 12),
            (50304, 8192, width, 1),
        )
    ]

    def truth_ns(signature: dict[str, Any]) -> float:
        bias = 0.15 * ((log(signature["m"]) % 2) - 1)
        return model_ns(signature) * (1 + bias) * chance.lognormvariate(0, 0.03)

    entries = [entry(signature, truth_ns(signature)) for signature, _ in work]

    def whole_ns(timer: CachedTimer) -> float:
        return sum(count * timer.time(signature).duration_ns for signature, count in work)

    full_ns = whole_ns(CachedTimer(MODELS, entries, NEW))
    moved = []
    for seed in range(20):
        kept = random.Random(seed).sample(entries, round(len(entries) * (1 - deleted)))
        moved.append(abs(whole_ns(CachedTimer(MODELS, kept, NEW)) / full_ns - 1))
    assert 0 < median(moved) <= limit


def test_a_recording_knows_what_the_cache_said() -> None:
    """Its rows with a signature are as they were; for the rest there are the models."""
    timer = CachedTimer(MODELS, [entry(product(64), 1e5)], NEW)
    timing = timer.time(product(64))
    assert timing.interval is not None
    row = {
        **{"signature": product(64), "duration_ns": timing.duration_ns, "tier": timing.tier.value},
        **{"interval": [timing.interval.low, timing.interval.high]},
        "interval_source": timing.interval.source,
    }
    recorded = RecordedTimer(MODELS, [row, {"name": "modelled", "duration_ns": 1}])
    assert recorded.time(product(64)) == timing
    assert recorded.time(product(65)) == MODELS.time(product(65))
