"""Matrix products: a tile model with fitted rates.

For every tile shape and split of k, the blocks make whole waves over the multiprocessors; a block
costs its multiply-adds, the traffic of its two panels and a fixed part; all blocks together cost
their memory traffic. The best choice is taken, as a library's heuristic would. Coefficients and
errors: docs/kernels.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, gcd
from typing import cast

from sim_server.gpu import GemmRates, GpuProfile
from sim_server.kernels.timing import Tier, Timing
from sim_server.records.payloads import ProductSignature

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (16, 64), (64, 16))
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
SHORTEST_SPLIT = 128
STEP = 64
_THIN, _LARGE = 128, 1024
_AMPERE, HOPPER = 8, 9
_NUMBER_BYTES = {"f64": 8, "f32": 4, "tf32": 4, "i32": 4, "f16": 2, "bf16": 2, "c64": 8, "c128": 16}
# What is multiplied where numbers are complex, each time in four products of real ones.
REAL_TYPES = {"c64": "f32", "c128": "f64"}
_FITTED_BYTES = 2
# The best FP8 products of stas00/ml-engineering@744d01e (1403 TFLOP/s on H100, 1453 on H200) are
# that much below twice the fitted bf16 rate.
_EIGHT_BIT_LOSS = 1.08
# Scales for 128 numbers along k, or for squares of so many: software adds up what they scale.
_BLOCK_SCALES = ("vec128", "block128x128")
# Operations of a multiprocessor's tensor cores in a cycle, in 16 bits, by how many numbers a load
# can take together, which leading dimensions decide: cuBLAS then takes kernels of earlier GPUs.
# Fitted to output layers of 30,522 and 50,257 columns on H100 (docs/accuracy-operators.md), but 4.
_UNALIGNED_FLOPS = {1: 730.0, 2: 1320.0, 4: 2100.0}
_UNALIGNED_TN_FLOPS = 500.0  # one by one, both operands along k
_ALIGNED = 8
# These kernels write results of a tile one after the other; those that load numbers one by one have
# large tiles where these fill the GPU, do not split k, and wait for each of it. Fitted to ten
# products on an H100 (docs/accuracy-operators.md).
_UNALIGNED_TILES = ((256, 128), (128, 256), (128, 128))
_SMALL_TILE = 64
_UNALIGNED_WAIT_NS = 23.5
_WAITING_BLOCKS = 4  # of a multiprocessor, that wait side by side
# On Hopper tensor cores read TF32 along k alone. Fitted as above, to ten products.
_TF32_ACROSS = 1.42
# Columns of C that a library call reads or writes beside D, by what its epilogue's name contains.
_AUXILIARY = ("aux", "dgelu", "drelu")


def number_bytes(number: str) -> int:
    """Bytes of a type of docs/records.md."""
    return _NUMBER_BYTES.get(number, 1)


@dataclass(frozen=True)
class Choices:
    """What a library has kernels for."""

    tiles: tuple[tuple[int, int], ...] = TILES
    splits: tuple[int, ...] = SPLITS
    step: int = STEP
    """Of k."""
    wait_ns: float = 0.0
    """Of each of k, where nothing hides it."""


# f32 outside the tensor cores, by the names of kernels in sitar-lab/NeuSight@6945927: none splits k
# over blocks, and for batches cuBLAS has one from Ampere to Ada, `ampere_sgemm_128x128` (of all
# 3,348 there). All of them have blocks for a third of the multiprocessors; others may be split, and
# so may gradients of weights, where k lies across in both operands: on H100 and H200 a few tiles of
# a long sum reach the full rate, as no other layout's do (docs/accuracy-operators.md).
_SINGLE_TILES = (
    *((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64)),
    *((128, 32), (32, 128), (64, 32), (32, 64), (32, 32)),
)
_SINGLE = Choices(_SINGLE_TILES, splits=(1,), step=8)
_SINGLE_BATCHED = Choices(((128, 128),), splits=(1,), step=8)
_SINGLE_SPLIT = Choices(step=8)
# FP8: where the scales are of blocks, and on Hopper, none of ai-dynamo/aiconfigurator@095f58a's
# collectors has a kernel that splits k, whatever the shape: long sums of few blocks take twice to
# six times as long as with splits.
_EIGHT_BIT_UNSPLIT = Choices(splits=(1,))


@dataclass(frozen=True)
class Product:
    """A batch of matrix products and what it moves.

    `slowdown` is the time of a step of k relative to bf16, to which the coefficients were fitted.
    """

    m: int
    n: int
    k: int
    batch: int
    traffic_bytes: int
    slowdown: float = 1.0
    written_bytes: int = 0
    """Of the traffic."""


def time_gemm(signature: ProductSignature, gpu: GpuProfile) -> Timing:
    """The timing of a {"kind": "gemm"} payload."""
    number = multiplied_type(signature)
    fitted = number in ("bf16", "f16")
    rates, region, choices = gpu.gemm, "other type", Choices()
    layout = _layout(signature)
    product = _read(signature, operand_slowdown(signature, gpu))
    if fitted and alignment(signature) < _ALIGNED:
        region = "unaligned"
        rates = replace(rates, tile_results=_SMALL_TILE**2)
        choices = _unaligned_choices(product, alignment(signature), gpu)
    elif fitted:
        region = product_region(product.m, product.n, product.k)
    elif number_bytes(number) == 1:
        region = "eight bit blocks" if _has_block_scales(signature) else "eight bit"
        choices = _eight_bit_choices(signature, gpu)
    elif number == "f32" and gpu.gemm_f32 is not None:
        rates, region, product = gpu.gemm_f32, "f32", replace(product, slowdown=1.0)
        choices = _single_choices(product, layout, gpu)
    duration_ns, blocks = product_ns(product, rates, gpu.sm_count, choices)
    size = f"{product.m}x{product.n}x{product.k}"
    size += f" x{product.batch}" if product.batch > 1 else ""
    return Timing(
        duration_ns=ceil(duration_ns),
        tier=Tier.MODELLED if number in gpu.peak_per_s else Tier.ASSUMED,
        kernel_class="gemm",
        name=f"gemm {signature['a']} {size} {layout}",
        sm_demand=min(1.0, blocks / gpu.sm_count),
        region=region,
    )


def operand_slowdown(signature: ProductSignature, gpu: GpuProfile) -> float:
    """The time of a step of k relative to bf16."""
    number = multiplied_type(signature)
    rate = gpu.peak_flops_per_ns(REAL_TYPES.get(number, number))
    arithmetic = gpu.peak_flops_per_ns("bf16") / rate * (4 if number in REAL_TYPES else 1)
    width = number_bytes(signature["a"])
    # The panels that a step reads bound it as much as its arithmetic does.
    slowdown = max(arithmetic, width / _FITTED_BYTES) * (_EIGHT_BIT_LOSS if width == 1 else 1)
    layout = _layout(signature)
    if number in ("bf16", "f16"):
        slowdown *= _unaligned_slowdown(alignment(signature), layout, gpu)
    elif number == "tf32" and layout == "NT":
        slowdown *= tf32_across(gpu)
    return slowdown * (gpu.gemm.block_scaled_step if _has_block_scales(signature) else 1)


def tf32_across(gpu: GpuProfile) -> float:
    """The time of a step of k in TF32 where k lies across, relative to where it does not."""
    return _TF32_ACROSS if gpu.compute_capability[0] == HOPPER else 1.0


def _layout(signature: ProductSignature) -> str:
    """Of A and of B: N as they lie, T or C transposed."""
    return signature.get("transa", "N") + signature.get("transb", "N")


def alignment(signature: ProductSignature) -> int:
    """The most numbers that begin every column of the operands and the result together: a power of
    two, at most 8. Of a matrix and a vector cuBLAS has kernels that do without tensor cores: mv of
    an H100 takes as long with any leading dimension (docs/accuracy-operators.md).
    """
    if 1 in (signature["m"], signature["n"]):
        return _ALIGNED
    told = cast(Mapping[str, int], signature)
    return gcd(_ALIGNED, *(told.get(name, 0) for name in ("lda", "ldb", "ldc")))


def _unaligned_slowdown(numbers: int, layout: str, gpu: GpuProfile) -> float:
    """The time of a step relative to operands that are aligned."""
    if numbers == _ALIGNED:
        return 1.0
    flops = _UNALIGNED_FLOPS[numbers]
    if numbers == 1 and layout == "TN":
        flops = _UNALIGNED_TN_FLOPS
    peak = gpu.peak_flops_per_ns("bf16") / (gpu.sm_count * gpu.cycles_per_ns)
    return max(1.0, peak / flops)


def _unaligned_choices(product: Product, numbers: int, gpu: GpuProfile) -> Choices:
    """Of a product whose loads take so many numbers together."""
    if numbers > 1:
        return Choices()
    blocks = ceil(product.m / 128) * ceil(product.n / 128) * product.batch
    are_large = blocks >= gpu.sm_count and min(product.m, product.n) > _SMALL_TILE
    others = () if are_large else ((_SMALL_TILE, _SMALL_TILE),)
    return Choices((*_UNALIGNED_TILES, *others), splits=(1,), wait_ns=_UNALIGNED_WAIT_NS)


def tile_step_ns(rows: int, columns: int, slowdown: float, rates: GemmRates) -> float:
    """What a block takes for each of k."""
    panel_ns = _FITTED_BYTES * (rows + columns) / rates.sm_bytes_per_ns
    return slowdown * (2 * rows * columns / rates.sm_flops_per_ns + panel_ns)


def tile_fixed_ns(rows: int, columns: int, rates: GemmRates) -> float:
    """What a block takes beside its steps."""
    return rates.tile_ns * (rows * columns / rates.tile_results if rates.tile_results else 1)


def _read(signature: ProductSignature, slowdown: float) -> Product:
    """The product of a signature."""
    sizes = signature["m"], signature["n"], signature["k"], signature.get("batch", 1)
    m, n, k, batch = (max(1, size) for size in sizes)
    result = number_bytes(signature["d"])
    if signature.get("beta"):
        result += number_bytes(signature["c"])
    if any(part in signature.get("epilogue", "none") for part in _AUXILIARY):
        result += number_bytes(signature["d"])
    left, right = number_bytes(signature["a"]), number_bytes(signature["b"])
    traffic_bytes = batch * (m * k * left + k * n * right + m * n * result)
    written_bytes = batch * m * n * number_bytes(signature["d"])
    return Product(m, n, k, batch, traffic_bytes, slowdown, written_bytes)


def _single_choices(product: Product, layout: str, gpu: GpuProfile) -> Choices:
    """Of a product in f32 outside the tensor cores."""
    blocks = ceil(product.m / 128) * ceil(product.n / 64) * product.batch
    is_gradient = layout == "NT" and product.batch == 1
    if is_gradient or blocks < gpu.sm_count / 3:
        return _SINGLE_SPLIT
    if product.batch > 1 and gpu.compute_capability[0] == _AMPERE:
        return _SINGLE_BATCHED
    return _SINGLE


def _has_block_scales(signature: ProductSignature) -> bool:
    return any(signature.get(name) in _BLOCK_SCALES for name in ("scale_a", "scale_b"))


def _eight_bit_choices(signature: ProductSignature, gpu: GpuProfile) -> Choices:
    """Of a product in eight bits."""
    is_float = multiplied_type(signature).startswith("f8")
    if is_float and (_has_block_scales(signature) or gpu.compute_capability[0] == HOPPER):
        return _EIGHT_BIT_UNSPLIT
    return Choices()


def multiplied_type(signature: ProductSignature) -> str:
    """The type whose peak rate bounds the product: f32 runs as TF32 only where asked."""
    number = signature["a"]
    if number in ("f32", "tf32"):
        return "tf32" if "tf32" in (number, signature.get("compute")) else "f32"
    return number


def product_region(m: int, n: int, k: int) -> str:
    """What the model's error depends on: the regions that have intervals of their own."""
    if min(m, n) <= _THIN:
        return "thin"
    return "large" if min(m, n, k) >= _LARGE else "mixed"


def product_ns(
    product: Product, rates: GemmRates, sm_count: int, choices: Choices | None = None
) -> tuple[float, int]:
    """Duration of a product and its blocks, of the best tile and split."""
    return min(_candidates(product, rates, sm_count, choices or Choices()))


def _candidates(
    product: Product, rates: GemmRates, sm_count: int, choices: Choices
) -> Iterator[tuple[float, int]]:
    m, n, k, batch = product.m, product.n, product.k, product.batch
    memory_ns = rates.moving_ns(product.traffic_bytes, product.written_bytes)
    for rows, columns in choices.tiles:
        tiles = ceil(m / rows) * ceil(n / columns) * batch
        step_ns = tile_step_ns(rows, columns, product.slowdown, rates)
        fixed_ns = tile_fixed_ns(rows, columns, rates)
        for split in choices.splits:
            if split > 1 and k / split < SHORTEST_SPLIT:
                break
            depth = ceil(k / split / choices.step) * choices.step
            compute_ns = ceil(tiles * split / sm_count) * (depth * step_ns + fixed_ns)
            rounds = ceil(tiles * split / (sm_count * _WAITING_BLOCKS))
            compute_ns = max(compute_ns, rounds * depth * choices.wait_ns)
            compute_ns *= 1 + rates.throttle * compute_ns / (compute_ns + rates.throttle_ns)
            start_ns, extra_ns = rates.latency_ns, 0.0
            if split > 1:
                start_ns += rates.split_ns
                extra_ns = m * n * batch * 8 * split / rates.reduction_bytes_per_ns
            joined_ns = join(compute_ns, memory_ns + extra_ns, rates.overlap)
            yield start_ns + joined_ns, tiles * split


def join(first_ns: float, second_ns: float, overlap: float) -> float:
    """The length of two overlapping activities, between their maximum and their sum."""
    longer, shorter = max(first_ns, second_ns), min(first_ns, second_ns)
    if not shorter:
        return longer
    # Scaled by the longer one: its power alone may overflow.
    return float(longer * (1 + (shorter / longer) ** overlap) ** (1 / overlap))
