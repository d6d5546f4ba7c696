"""How long the kernels of an execution trace take.

What describes its work (docs/records.md) takes as long as in the recorded run, on the GPU that it
was recorded on, and as the models say on another. What has only a duration keeps it everywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sim_server.kernels import Interval, Tier, Timer, Timing
from sim_server.timing_cache.entry import signature_key

# A kernel whose trace tells its duration has met what it shared the GPU with already.
_LEAST_DEMAND = 1e-6


class TracedTimer:
    """A `Timer`. `recorded`: by `signature_key`, the row of a signature's timing."""

    def __init__(self, models: Timer, recorded: Mapping[str, Mapping[str, Any]]) -> None:
        self._models = models
        self._recorded = recorded
        self._fixed: dict[str, Timing] = {}

    def fixed(self, name: str, duration_ns: int) -> dict[str, Any]:
        """The signature of a kernel that takes so long. Equal ones are one."""
        work: dict[str, Any] = {
            **{"kind": "kernel", "name": name, "grid": [1, 1, 1], "block": [1, 1, 1]},
            **{"shared_bytes": 0, "scalars": [[0, duration_ns]]},
        }
        self._fixed[signature_key(work)] = Timing(
            max(duration_ns, 1), Tier.ASSUMED, "traced", name, _LEAST_DEMAND
        )
        return work

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        key = signature_key(signature)
        if (fixed := self._fixed.get(key)) is not None:
            return fixed
        timing = self._models.time(signature)
        row = self._recorded.get(key)
        if row is None:
            return timing
        interval = timing.interval
        if "interval" in row:
            low, high = row["interval"]
            interval = Interval(low, high, row["interval_source"])
        tier, duration_ns = Tier(row["tier"]), row["duration_ns"]
        return dataclasses.replace(timing, duration_ns=duration_ns, tier=tier, interval=interval)
