"""What other kernels of PyTorch took on an H100, of which the models had seen none.

Measured: NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, by CUPTI, with the
operator just before the same; and 0.9 us until the next kernel begins. Grids and arguments as
PyTorch 2.15 launches them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim_server.kernels import KernelTimer, Tier

MakeLaunch = Callable[..., dict[str, Any]]

_ROWS = [
    line.split("\t")
    for line in Path(__file__).with_name("measured_anew.tsv").read_text().splitlines()
]
CASES = {label: (float(us), name, json.loads(rest)) for label, us, name, rest in _ROWS}
"""Of each: microseconds, name, and what else its launch says."""
# How often it repeats is on the GPU.
_ASSUMED = {"repeat_interleave"}


@pytest.mark.parametrize("case", CASES)
def test_measured(timers: dict[str, KernelTimer], case: str) -> None:
    """Within a fifth, and within the interval that is given; told as modelled."""
    measured_us, name, rest = CASES[case]
    signature = {"kind": "kernel", "name": name, "shared_bytes": 0} | rest
    timing = timers["h100"].time(signature)
    assert timing.duration_ns / 1000 == pytest.approx(measured_us, rel=0.2)
    assert timing.interval is not None
    assert timing.interval.low <= 1000 * measured_us / timing.duration_ns <= timing.interval.high
    assert (timing.tier is Tier.ASSUMED) == (case in _ASSUMED)


# Images, channels, pixels and microseconds of a call of cuDNN's sampler, its gradient with the
# scaling before it; of random places.
SAMPLED = {
    "sampling_forward": ((32, 64, 112**2, 461.2), (8, 256, 56**2, 136.1)),
    "sampling_backward": ((32, 64, 112**2, 1861.4), (8, 256, 56**2, 494.4)),
}


@pytest.mark.parametrize("operation", SAMPLED)
def test_aligned_samples(timers: dict[str, KernelTimer], operation: str) -> None:
    """cuDNN's bilinear sampler takes what it took, within a tenth."""
    for images, channels, pixels, measured_us in SAMPLED[operation]:
        moved = 4 * (2 * images * channels * pixels + 2 * images * pixels)
        sizes = {"batch": images, "channels": channels, "points": pixels, "bytes": moved}
        signature = {"kind": "library", "library": "cudnn", "operation": operation, "type": "f32"}
        timing = timers["h100"].time(signature | sizes)
        assert timing.duration_ns / 1000 == pytest.approx(measured_us, rel=0.1)


# Images, channels, elements of a volume and microseconds, forward and of gradients.
VOLUMES = ((4, 64, 32**3, 72.6, 205.8), (1, 32, 96**3, 428.5, 1273.1), (4, 3, 64**3, 365.2, 1045.9))


@pytest.mark.parametrize("case", VOLUMES)
def test_norms_of_volumes(timers: dict[str, KernelTimer], case: tuple[float, ...]) -> None:
    """cuDNN's norm of few channels takes a block's time for the elements of each: within an eighth,
    of three channels half as long again. It was up to ten times as long.
    """
    images, channels, elements, *measured_us = case
    operand_bytes = 4 * images * channels * elements
    found = {"batch_norm_forward_training": 2, "batch_norm_backward": 3}
    for (operation, operands), expected_us in zip(found.items(), measured_us, strict=True):
        signature = {
            **{"kind": "library", "library": "cudnn", "operation": operation, "type": "f32"},
            **{"batch": images, "channels": channels, "pixels": elements},
            **{"bytes": operands * operand_bytes, "layout": "contiguous"},
        }
        ratio = timers["h100"].time(signature).duration_ns / 1000 / expected_us
        assert 0.875 < ratio < (1.125 if channels > 3 else 1.55)
