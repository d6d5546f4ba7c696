"""Which samples of a series count, and which kernel of a trace is the one that was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from phantora_py.profile.calls.lists import lengths_of
from phantora_py.profile.launches import kernels_of
from phantora_py.profile.samples import series, without_outliers

FILL = (
    "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_11FillFunctorIiEESt5arrayIPcLm1EELb1EEE"
    "viT0_T1_"
)
FILL_TEXT = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<int>, "
    "std::array<char*, 1ul>, true>(int, at::native::FillFunctor<int>, std::array<char*, 1ul>)"
)


def test_an_interruption_is_left_out() -> None:
    """One sample that took twice as long; clocks that drift by a percent stay."""
    quiet = [100.0, 100.5, 101.0, 99.5, 100.2]
    assert without_outliers([*quiet, 230.0]) == quiet
    assert without_outliers(quiet) == quiet
    assert without_outliers([100.0] * 5 + [101.9]) == [100.0] * 5 + [101.9]


def test_a_series_goes_on_until_enough_samples_count() -> None:
    """Outliers are counted; what never settles is kept as it is, after three rounds."""

    def sampler(*samples: float) -> Iterator[float]:
        yield from samples

    values = sampler(100, 100, 900, 100, 500, 100, 100, 100, 100, 100)
    assert series(lambda: next(values), 5) == ([100.0] * 8, 2)
    restless = sampler(*(100 + 2 * number for number in range(50)))
    assert series(lambda: next(restless), 9) == ([100.0 + 2 * number for number in range(27)], 0)


def test_the_kernel_of_a_trace_is_told_by_name_grid_and_block() -> None:
    """Other events are none; durations are microseconds there."""
    event = {"cat": "kernel", "name": FILL_TEXT, "dur": 2.5}
    trace = {
        "traceEvents": [
            {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 9},
            event | {"args": {"grid": [4, 1, 1], "block": [128, 1, 1], "stream": 7}},
        ]
    }
    (found,) = kernels_of(trace)
    signature = {"kind": "kernel", "name": FILL, "grid": [4, 1, 1], "block": [128, 1, 1]}
    assert found.is_of(signature)
    assert found.duration_ns == 2500.0
    assert not found.is_of(signature | {"grid": [5, 1, 1]})
    assert not found.is_of(signature | {"name": FILL.replace("FunctorIi", "FunctorIf")})


@pytest.mark.parametrize(
    ("elements", "blocks", "lengths"),
    [
        (103_070, 2, [103_070]),
        (103_070, 4, [103_068, 1, 1]),
        (65_537, 2, [65_537]),
        (5, 3, [3, 1, 1]),
        (1, 4, [1]),
    ],
)
def test_lists_have_the_elements_and_blocks_of_the_launch(
    elements: int, blocks: int, lengths: list[int]
) -> None:
    """A block works on 65,536 elements of one tensor."""
    assert lengths_of(elements, blocks) == lengths
