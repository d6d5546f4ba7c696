"""Products and attention in training, whose clocks are lower than in the short bursts that the
models are fitted to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import ceil
from typing import Any

from sim_server.kernels.timer import Timer
from sim_server.kernels.timing import Interval, Timing

# Regions of products that memory bounds, or that the tensor cores have no part in.
_COOL = frozenset({"thin", "f32", "other type"})


class TrainingTimer:
    """Times as another timer does, but for what the tensor cores' power bounds: that takes `factor`
    times as long. Its interval still reaches down to where it took no longer.
    """

    def __init__(self, timer: Timer, factor: float) -> None:
        assert factor >= 1, factor
        self._timer = timer
        self._factor = factor

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        timing = self._timer.time(signature)
        if not _is_power_bound(timing):
            return timing
        interval = timing.interval
        if interval is not None:
            interval = Interval(interval.low / self._factor, interval.high, interval.source)
        return dataclasses.replace(
            timing, duration_ns=ceil(timing.duration_ns * self._factor), interval=interval
        )


def _is_power_bound(timing: Timing) -> bool:
    if timing.kernel_class == "gemm":
        return timing.region not in _COOL
    return timing.kernel_class == "attention"
