"""How far a duration may be off: the 90 % interval that a GPU's profile gives to each kind of
prediction.

The table is `[intervals]` of the profiles: per class, or class and region, what the truth may be a
multiple of, and where that is from. docs/kernels.md has the rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sim_server.gpu import GpuProfile
from sim_server.kernels.timing import Interval, Tier, Timing

# Classes that the tensor cores' power draw may slow down in long runs.
_SUSTAINED = frozenset({"gemm", "attention", "convolution"})


def with_interval(timing: Timing, gpu: GpuProfile) -> Timing:
    """A modelled or assumed timing with the interval of its kind."""
    found = next(gpu.intervals[key] for key in _keys(timing) if key in gpu.intervals)
    low, high, source = found
    if timing.kernel_class in _SUSTAINED:
        high *= gpu.intervals["sustained"][1]
    return dataclasses.replace(timing, interval=Interval(low, high, source))


def _keys(timing: Timing) -> Iterator[str]:
    """From the most particular one to the tier's own, which every profile has."""
    prefix = "assumed " if timing.tier is Tier.ASSUMED else ""
    if timing.region:
        yield f"{prefix}{timing.kernel_class} {timing.region}"
    if timing.region == "cached" and not prefix:
        yield "cached"
    yield f"{prefix}{timing.kernel_class}"
    yield timing.tier.value
