"""FBGEMM's kernels are known by name: bags, lookups and row width from the launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim_server.kernels import KernelTimer, Tier

MakeLaunch = Callable[..., dict[str, Any]]

_FORWARD = (
    "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, false, long, "
    "1ul, {lanes}ul>(float const*)"
)
_BACKWARD = (
    "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1"
    "<float, float, float, long, 1, {lanes}, false>(float const*)"
)


@pytest.mark.parametrize("name", [_FORWARD, _BACKWARD])
def test_time_grows_with_bags_and_width(
    timers: dict[str, KernelTimer], launch: MakeLaunch, name: str
) -> None:
    """Twice the grid takes twice as long, a row of half the width more than half."""
    timer = timers["a100"]

    def time(blocks: int, lanes: int) -> Any:
        grid, block = (blocks, 1, 1), (lanes, 1024 // lanes, 1)
        return timer.time(launch(name.format(lanes=lanes), grid=grid, block=block))

    wide, more = time(4096, 32), time(8192, 32)
    # As many bags: a block has twice as many of half the lanes.
    narrow = time(2048, 16)
    assert wide.kernel_class == "embedding"
    assert wide.tier is Tier.ASSUMED
    assert more.duration_ns == pytest.approx(2 * wide.duration_ns, rel=0.05)
    assert 0.5 < narrow.duration_ns / wide.duration_ns < 0.7


def test_forward_by_hand(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """131,072 bags of 20 rows of 128 numbers: their bytes at the rate of rows."""
    name = _FORWARD.format(lanes=32)
    timing = timers["a100"].time(launch(name, grid=(4096, 1, 1), block=(32, 32, 1)))
    by_hand = 131_072 * (20 * (512 + 8) + 512 + 8) / (2039 * 0.88 * 0.93)
    assert timing.duration_ns == pytest.approx(by_hand + 1800, rel=0.01)
