"""How long a call takes on the GPU: series of launches, and which of the samples count."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phantora_py.profile.calls import Call, Refusal, Remainder

_WARM_UP, _WARM, _COLD = 3, 9, 5
# Launches that are timed together, so that the events' own time does not count.
_TOGETHER = 8
# The GPU sleeps while the host queues what is timed; cycles for some milliseconds (assumed).
_HEAD_START_CYCLES = 10_000_000
_FLUSHED_BYTES = 512 << 20  # several times the largest L2 cache
# A sample counts if it is within so many standard deviations of the median, which the median
# deviation tells without minding outliers, or within a share that clocks alone explain (assumed).
_DEVIATIONS = 3.5
_SIGMA_PER_DEVIATION = 1.4826  # of a normal distribution
_SHARE = 0.02
_LEAST, _MOST_ROUNDS = 5, 3
# How far apart samples that count may be, as a share of their median (assumed).
_SETTLED = 0.1


def measure(torch: Any, call: Call | Remainder) -> dict[str, Any]:
    """Samples of a call. Warm: several in a row; cold: one after the cache was filled with
    something else. Raises: Refusal.
    """
    if isinstance(call, Remainder):
        return difference(measure(torch, call.whole), measure(torch, call.part))
    for _ in range(_WARM_UP):
        call()
    torch.cuda.synchronize()
    warm_ns, outliers = series(lambda: _elapsed_ns(torch, call, _TOGETHER), _WARM)
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device="cuda")

    def cold() -> float:
        flushed.zero_()
        torch.cuda.synchronize()
        return _elapsed_ns(torch, call, 1)

    cold_ns, more = series(cold, _COLD)
    return {"warm_ns": warm_ns, "cold_ns": cold_ns, "outliers": outliers + more}


def difference(whole: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Samples of what the whole takes longer than its part's median. Raises: Refusal if one is not
    above 0.
    """
    found = {
        name: [sample - statistics.median(part[name]) for sample in whole[name]]
        for name in ("warm_ns", "cold_ns")
    }
    if min(min(samples) for samples in found.values()) <= 0:
        raise Refusal("it takes too little time beside what has to be called with it")
    return found | {"outliers": whole["outliers"] + part["outliers"]}


def without_outliers(samples: Sequence[float]) -> list[float]:
    """Those that count, in their order."""
    middle = statistics.median(samples)
    deviation = statistics.median(abs(sample - middle) for sample in samples)
    reach = max(_DEVIATIONS * _SIGMA_PER_DEVIATION * deviation, _SHARE * middle)
    return [sample for sample in samples if abs(sample - middle) <= reach]


def series(sample: Callable[[], float], count: int) -> tuple[list[float], int]:
    """`count` samples, and as many again while too few of them count or they are far apart; and how
    many were left out. What does not settle is kept with its spread, which tells of it.
    """
    samples: list[float] = []
    kept: list[float] = []
    for _ in range(_MOST_ROUNDS):
        samples += [sample() for _ in range(count)]
        kept = without_outliers(samples)
        if len(kept) >= _LEAST and max(kept) - min(kept) <= _SETTLED * statistics.median(kept):
            break
    return kept, len(samples) - len(kept)


def _elapsed_ns(torch: Any, call: Call, launches: int) -> float:
    """Of one launch, between events around some of them."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_HEAD_START_CYCLES)
    start.record()
    for _ in range(launches):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e6 / launches
