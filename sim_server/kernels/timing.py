"""What the timing of a launch says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Tier(str, Enum):
    """How a duration was found, from the most to the least trustworthy."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    MODELLED = "modelled"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class Interval:
    """With 90 % confidence the true duration is between `low` and `high` times the one given."""

    low: float
    high: float
    source: str

    def __post_init__(self) -> None:
        assert 0 < self.low <= 1 <= self.high, self


@dataclass(frozen=True)
class Timing:
    """The duration of one launch with this signature, alone on the device.

    `sm_demand` is the share of the multiprocessors that the launch fills, above 0 and at most 1.
    `region`: within the class, what the size of the error depends on.
    """

    duration_ns: int
    tier: Tier
    kernel_class: str
    name: str
    sm_demand: float
    region: str = ""
    interval: Interval | None = None
    """None: nothing is known about the error."""

    def __post_init__(self) -> None:
        assert self.duration_ns >= 1, self
        assert 0 < self.sm_demand <= 1, self
