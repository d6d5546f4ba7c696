"""Grouped matrix products, as layers of experts have them: many small products in one launch.

The groups differ in one extent. Each is padded to whole tiles of its own; all tiles of all groups
together make waves over the multiprocessors, and the weights of a group without rows are not read.
No sum is split over blocks. Coefficients are those of plain products (`sim_server.kernels.gemm`).
Errors: docs/accuracy-experts.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from sim_server.gpu import GemmRates, GpuProfile
from sim_server.kernels.gemm import (
    STEP,
    TILES,
    join,
    multiplied_type,
    number_bytes,
    operand_slowdown,
    tile_fixed_ns,
    tile_step_ns,
)
from sim_server.kernels.timing import Tier, Timing
from sim_server.records.payloads import GroupedGemm

AXES = ("m", "n", "k")
Shape = tuple[int, int, int]
# Beside those of plain products: groups often have few rows.
GROUPED_TILES = (*TILES, (16, 128), (128, 16), (32, 64), (64, 32), (32, 128), (128, 32))
_FITTED = ("bf16", "f16")
# Mean rows, or columns if these are fewer, of the groups: below the first most groups are empty,
# and weights are what takes time; from the second on arithmetic is.
_FEW, _MANY = 1, 64


def group_shapes(signature: GroupedGemm) -> Counter[Shape]:
    """m, n and k of the groups, and how many there are of each.

    Raises: ValueError for sizes that no product has: signatures come from ranks.
    """
    shape = signature["m"], signature["n"], signature["k"]
    sizes, along = signature.get("group_sizes", []), signature.get("along", "")
    if not sizes:
        return Counter({shape: signature["batch"]})
    if along not in AXES or any(not isinstance(size, int) or size < 0 for size in sizes):
        raise ValueError(f"groups of sizes {sizes} along {along!r}")
    m, n, k = shape

    def of(size: int) -> Shape:
        return (
            size if along == "m" else m,
            size if along == "n" else n,
            size if along == "k" else k,
        )

    return Counter({of(size): count for size, count in Counter(sizes).items()})


def time_grouped(signature: GroupedGemm, gpu: GpuProfile) -> Timing:
    """The timing of a grouped product; of equal groups where their sizes are not known."""
    groups = group_shapes(signature)
    number = multiplied_type(signature)
    duration_ns, blocks = min(_candidates(signature, groups, gpu))
    known = bool(signature.get("group_sizes")) and number in _FITTED
    size = f"{signature['m']}x{signature['n']}x{signature['k']}"
    layout = f"{signature.get('transa', 'N')}{signature.get('transb', 'N')}"
    return Timing(
        duration_ns=ceil(duration_ns),
        tier=Tier.MODELLED if known else Tier.ASSUMED,
        kernel_class="gemm",
        name=f"grouped gemm {signature['a']} {size} x{groups.total()} {layout}",
        sm_demand=min(1.0, max(1, blocks) / gpu.sm_count),
        region=grouped_region(groups),
    )


def grouped_region(groups: Counter[Shape]) -> str:
    """What the model's error depends on."""
    mean = sum(min(m, n) * count for (m, n, _), count in groups.items()) / max(1, groups.total())
    return "grouped few" if mean < _FEW else "grouped" if mean < _MANY else "grouped many"


def grouped_rates(gpu: GpuProfile) -> GemmRates:
    """Those of plain products, with the arithmetic that grouped kernels reach."""
    rates = gpu.gemm
    return replace(rates, sm_flops_per_ns=rates.sm_flops_per_ns / rates.grouped_step)


def _candidates(
    signature: GroupedGemm, groups: Counter[Shape], gpu: GpuProfile
) -> Iterator[tuple[float, int]]:
    """Duration and blocks for each shape of a tile."""
    rates, slowdown = grouped_rates(gpu), operand_slowdown(signature, gpu)
    # Weights are read once, from end to end.
    rate = max(rates.bandwidth_bytes_per_ns, gpu.bandwidth_bytes_per_ns)
    memory_ns = _traffic_bytes(signature, groups) / rate
    for rows, columns in GROUPED_TILES:
        step_ns = tile_step_ns(rows, columns, slowdown, rates)
        fixed_ns = tile_fixed_ns(rows, columns, rates)
        blocks, sum_ns, longest_ns = 0, 0.0, 0.0
        for (m, n, k), count in groups.items():
            tiles = ceil(m / rows) * ceil(n / columns) * count
            if tiles:
                block_ns = ceil(k / STEP) * STEP * step_ns + fixed_ns
                blocks, sum_ns = blocks + tiles, sum_ns + tiles * block_ns
                longest_ns = max(longest_ns, block_ns)
        waves = ceil(blocks / gpu.sm_count)
        compute_ns = max(longest_ns, waves * sum_ns / max(1, blocks))
        compute_ns *= 1 + rates.throttle * compute_ns / (compute_ns + rates.throttle_ns)
        yield rates.latency_ns + join(compute_ns, memory_ns, rates.overlap), blocks


def _traffic_bytes(signature: GroupedGemm, groups: Counter[Shape]) -> int:
    """What all groups read and write; one without rows or columns does neither."""
    left, right, result = (number_bytes(signature[name]) for name in ("a", "b", "d"))
    return sum(
        count * (m * k * left + k * n * right + m * n * result)
        for (m, n, k), count in groups.items()
        if m and n
    )
