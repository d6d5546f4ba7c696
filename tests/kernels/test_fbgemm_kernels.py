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


_TABLES, _SAMPLES, _LOOKUPS, _DIM = 8, 8192, 65_536, 128
_SIZES = {
    "weights": _TABLES * 10_000_000 * _DIM,
    "lookups": _LOOKUPS,
    "bags": _TABLES * _SAMPLES,
    "results": _TABLES * _SAMPLES * _DIM,
}
_SEQUENCES = _FORWARD.replace("_codegen", "_nobag_codegen").replace("1ul, {lanes}ul", "32ul")


def test_lookups_that_the_tensors_tell(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """One lookup for each bag, of rows that hardly repeat: rows, indices, offsets and results, at
    the rate of rows.
    """
    shape: dict[str, Any] = {"grid": (2048, 1, 1), "block": (32, 32, 1)}
    timing = timers["a100"].time(launch(_FORWARD.format(lanes=32), **shape, sizes=_SIZES))
    by_hand = _LOOKUPS * (512 + 8 + 512 + 8) / (2039 * 0.88 * 0.93)
    assert timing.duration_ns == pytest.approx(by_hand + 1800, rel=0.02)
    sequences = launch(_SEQUENCES, **shape, sizes={**_SIZES, "results": _LOOKUPS * _DIM})
    assert timers["a100"].time(sequences).duration_ns == timing.duration_ns
    assert timing.tier is Tier.ASSUMED


def test_few_rows_come_from_the_cache(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """Tables that the L2 cache holds take less, forward and backward."""
    few = {**_SIZES, "weights": _TABLES * 1000 * _DIM}
    for name in (_FORWARD, _BACKWARD):
        times = [
            timers["a100"].time(launch(name.format(lanes=32), grid=(2048, 1, 1), sizes=sizes))
            for sizes in (_SIZES, few)
        ]
        assert times[1].duration_ns < 0.8 * times[0].duration_ns


def test_updates_read_gradients_and_write_rows(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """Each row and its sector of state go both ways, each lookup reads a gradient and its place."""
    name = _BACKWARD.format(lanes=32)
    sizes = {key: size for key, size in _SIZES.items() if key != "bags"}
    timing = timers["a100"].time(launch(name, grid=(4096, 1, 1), block=(32, 16, 1), sizes=sizes))
    gradients = _LOOKUPS * (512 + 8)
    most = (gradients + _LOOKUPS * 2 * (512 + 32)) / (2039 * 0.88 * 0.93)
    assert 0.6 * most < timing.duration_ns - 1800 < most
