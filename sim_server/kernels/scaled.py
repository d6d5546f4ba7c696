"""Kernels that take longer or shorter than their model says, because the user wants to know what
then would be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import ceil, prod
from typing import Any

from sim_server.kernels.timer import Timer
from sim_server.kernels.timing import Tier, Timing


@dataclasses.dataclass(frozen=True)
class KernelScale:
    """Kernels whose name or class matches `pattern` take `factor` times as long."""

    pattern: str
    """With `*`, `?` and `[]` as in a shell; upper and lower case are the same."""
    factor: float

    def matches(self, name: str, kernel_class: str) -> bool:
        """Whether it concerns this kernel."""
        pattern = self.pattern.lower()
        return any(fnmatchcase(one.lower(), pattern) for one in (name, kernel_class))


class ScaledTimer:
    """Times as another timer does, but for some kernels. What the user supposed is assumed."""

    def __init__(self, timer: Timer, scales: Sequence[KernelScale]) -> None:
        """Where several match, all of them count."""
        self._timer = timer
        self._scales = scales

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        timing = self._timer.time(signature)
        name, kernel_class = timing.name, timing.kernel_class
        factors = [one.factor for one in self._scales if one.matches(name, kernel_class)]
        if not factors:
            return timing
        duration_ns = max(ceil(timing.duration_ns * prod(factors)), 1)
        return dataclasses.replace(timing, duration_ns=duration_ns, tier=Tier.ASSUMED)


class RatioTimer:
    """Times as another timer does, by as many times as one set of models says more than another.

    So what was measured on a GPU stays measured on it, and only the change comes from models.
    """

    def __init__(self, timer: Timer, before: Timer, after: Timer) -> None:
        """`before`, `after`: of the same GPU as it is, and as it would be."""
        self._timer = timer
        self._before = before
        self._after = after

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        timing = self._timer.time(signature)
        before_ns = self._before.time(signature).duration_ns
        after_ns = self._after.time(signature).duration_ns
        if before_ns == after_ns:
            return timing
        duration_ns = max(ceil(timing.duration_ns * after_ns / before_ns), 1)
        return dataclasses.replace(timing, duration_ns=duration_ns, tier=Tier.ASSUMED)
