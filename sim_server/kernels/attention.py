"""Attention kernels: FlashAttention-2 and PyTorch's memory-efficient (CUTLASS) kernels, and their
helpers.

A block owns a strip of the score matrix (queries in the forward pass, keys in the backward pass)
and walks the tiles of the other side. A tile costs its multiply-adds and its softmax; the launch
costs all tiles spread over the multiprocessors plus a share of the longest strip. Coefficients and
errors: docs/kernels.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from sim_server.gpu import GpuProfile
from sim_server.gpu.profile import PassRates
from sim_server.kernels.work import Launch, Work, guessed

_FEW_WAVES = 2
_SHORT = 256
_FORWARD_PRODUCTS = 2
_BACKWARD_PRODUCTS = 5
_NUMBER_BYTES = 2
_TRAITS = re.compile(r"Flash_(fwd|bwd)_kernel_traits<(\d+), (\d+), (\d+), (\d+)")
_EFFICIENT = re.compile(
    r"fmha_cutlass([FB])_(f32|f16|bf16)_(?:not)?aligned_(\d+)x(\d+)_(?:k(\d+))?"
)
# Published A100 charts (Dao-AILab/flash-attention@0251105) show xformers' CUTLASS kernels, from
# which PyTorch's come, at 0.43 to 0.58 of FlashAttention-2's rate. Single precision takes three
# TF32 products for one, a sixth; on an H200 it is a fourth (docs/accuracy-operators.md).
_EFFICIENT_SLOWDOWN = {"f16": 2.1, "bf16": 2.1, "f32": 2.1 * 4}


@dataclass(frozen=True)
class Strips:
    """An attention pass: `rows` of the strip's side, `columns` of the other, in tiles; heads times
    batch.
    """

    rows: int
    columns: int
    tile_rows: int
    tile_columns: int
    head_dim: int
    heads: int
    causal: bool
    corner: bool = False
    """Whether the causal mask starts at the upper left corner; else it ends at the lower right one,
    as FlashAttention aligns it."""
    parts: int = 1
    """Into how many the columns are split, each with a block of its own for a strip."""

    def tiles(self) -> tuple[int, int, int]:
        """Blocks per head that have tiles, tiles of all of them, tiles of the longest."""
        strips = ceil(self.rows / self.tile_rows)
        width = ceil(self.columns / self.tile_columns)
        part = ceil(width / self.parts)
        if not self.causal:
            return strips * ceil(width / part), strips * width, part
        # By symmetry the backward pass, whose strips are columns, does the same number of tiles.
        shift = 0 if self.corner else self.columns - self.rows
        lengths = [
            min(width, max(0, ceil(((strip + 1) * self.tile_rows + shift) / self.tile_columns)))
            for strip in range(strips)
        ]
        if self.parts == 1:
            return strips, sum(lengths), max(lengths)
        blocks = sum(ceil(length / part) for length in lengths)
        return max(1, blocks), sum(lengths), min(part, max(lengths))

    @property
    def length(self) -> int:
        """Of the longer side."""
        return max(self.rows, self.columns)


def pass_region(blocks: float, sm_count: int, length: int) -> str:
    """What the model's error depends on: passes of short sequences are not much more than their
    start, and those of few blocks are bound by the longest of them.
    """
    if length < _SHORT:
        return "short"
    return "few" if blocks < _FEW_WAVES * sm_count else "many"


def pass_ns(
    strips: Strips, rates: PassRates, products: int, latency_ns: float, sm_count: int
) -> float:
    """Duration of an attention pass with `products` matrix products per tile."""
    per_head, tiles, longest = strips.tiles()
    depth = ceil(strips.head_dim / 32) * 32
    element_ns = 2 * products * depth / rates.sm_flops_per_ns + rates.softmax_ns
    tile_ns = strips.tile_rows * strips.tile_columns * element_ns
    blocks = per_head * strips.heads
    spread_ns = (tiles * strips.heads * tile_ns + blocks * rates.tile_ns) / sm_count
    strip_ns = longest * tile_ns + rates.tile_ns
    return latency_ns + max(
        spread_ns + rates.tail * strip_ns * min(1.0, blocks / sm_count), strip_ns
    )


def flash_pass(launch: Launch, gpu: GpuProfile) -> Work:
    """flash_fwd_kernel, flash_fwd_splitkv_kernel, flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel."""
    text = launch.name.text
    traits = _TRAITS.search(text)
    assert traits is not None, text
    backward = traits[1] == "bwd"
    head_dim, tile_q, tile_k = int(traits[2]), int(traits[3]), int(traits[4])
    sizes = launch.sizes
    # Without the sizes: the grid is (strips, batch, heads), or (strips, parts, batch times heads)
    # where the keys are split, and the sequences are taken as equal.
    grid_rows = launch.grid[0] * (tile_k if backward else tile_q)
    queries = sizes.get("seqlen_q", grid_rows)
    keys = sizes.get("seqlen_k", grid_rows)
    batch, parts = (1, launch.grid[1]) if _is_split(launch) else (launch.grid[1], 1)
    heads = sizes.get("batch", batch) * sizes.get("heads", launch.grid[2])
    strips = Strips(
        rows=keys if backward else queries,
        columns=queries if backward else keys,
        tile_rows=tile_k if backward else tile_q,
        tile_columns=tile_q if backward else tile_k,
        head_dim=sizes.get("head_dim", head_dim),
        heads=heads,
        causal=_is_causal(launch),
        parts=parts,
    )
    rates = gpu.attention.backward if backward else gpu.attention.forward
    products = _BACKWARD_PRODUCTS if backward else _FORWARD_PRODUCTS
    compute_ns = pass_ns(strips, rates, products, gpu.attention.latency_ns, gpu.sm_count)
    share = share_of_longest(sizes)
    # Decoding: a query or two, and all keys and values.
    kv_heads = sizes.get("batch", 1) * sizes["kv_heads"] if "kv_heads" in sizes else heads
    held = 2 * _NUMBER_BYTES * strips.head_dim * (queries * heads + keys * kv_heads)
    serial_ns = max(compute_ns * share, held / gpu.bandwidth_bytes_per_ns)
    sound = "seqlen_q" in sizes and share == 1 and not rates.assumed
    region = pass_region(strips.tiles()[0] * strips.heads, gpu.sm_count, strips.length)
    return Work(
        bytes=0,
        serial_ns=serial_ns,
        sound=sound,
        region=f"{'backward' if backward else 'forward'} {region}",
    )


def share_of_longest(sizes: Mapping[str, Any]) -> float:
    """Of sequences of unequal length, whose longest has `seqlen_q` and which have `total_q` in all:
    their scores, as a share of those of as many of the longest. The others are taken to be equally
    long, which is the least that it can be. 1 for sequences of one length.
    """
    longest, batch, total = (int(sizes.get(name, 0)) for name in ("seqlen_q", "batch", "total_q"))
    if not total or batch < 2 or not longest:
        return 1.0
    return (longest**2 + (total - longest) ** 2 / (batch - 1)) / (batch * longest**2)


def _is_split(launch: Launch) -> bool:
    """The last template arguments of the split kernel: Split, Append_KV. Where the first is false
    it is there for keys in pages.
    """
    return "splitkv" in launch.name.family and launch.name.template[-2:-1] == ("true",)


def _is_causal(launch: Launch) -> bool:
    """Template arguments after the traits: Is_dropout, Is_causal, Is_local; the split kernel has no
    first one.

    A local window is timed as causal: its width is an argument that the signature does not hold.
    """
    first = 1 if "splitkv" in launch.name.family else 2
    return "true" in launch.name.template[first : first + 2]


def efficient_pass(launch: Launch, gpu: GpuProfile) -> Work:
    """fmha_cutlassF_* and fmha_cutlassB_*: (strips, heads, batch) blocks."""
    match = _EFFICIENT.search(launch.name.text)
    assert match is not None, launch.name.text
    backward, number = match[1] == "B", match[2]
    tile_rows, tile_columns = int(match[3]), int(match[4])
    sizes = launch.sizes
    queries = sizes.get("seqlen_q", launch.grid[0] * tile_rows)
    keys = sizes.get("seqlen_k", queries)
    strips = Strips(
        rows=keys if backward else queries,
        columns=queries if backward else keys,
        tile_rows=tile_columns if backward else tile_rows,
        tile_columns=tile_rows if backward else tile_columns,
        head_dim=sizes.get("head_dim", 64),
        heads=launch.grid[1] * launch.grid[2],
        causal=sizes.get("mask", 0) > 0,
    )
    rates = gpu.attention.backward if backward else gpu.attention.forward
    slow = _EFFICIENT_SLOWDOWN[number]
    rates = replace(
        rates, sm_flops_per_ns=rates.sm_flops_per_ns / slow, softmax_ns=rates.softmax_ns * slow
    )
    products = _BACKWARD_PRODUCTS if backward else _FORWARD_PRODUCTS
    serial_ns = pass_ns(strips, rates, products, gpu.attention.latency_ns, gpu.sm_count)
    sound = "seqlen_q" in sizes and not rates.assumed
    return Work(bytes=0, serial_ns=serial_ns, sound=sound, region="efficient")


def flash_helper(launch: Launch, _gpu: GpuProfile) -> Work:
    """dot_do_o (reads dO and O, clears the fp32 accumulator of dQ) and convert_dq (reads it, writes
    dQ).
    """
    traits = _TRAITS.search(launch.name.text)
    if traits is None:  # a kernel of the program's own
        return guessed(launch)
    sizes = launch.sizes
    rows = sizes.get("seqlen_q", launch.grid[0] * int(traits[3]))
    heads = sizes.get("batch", launch.grid[1]) * sizes.get("heads", launch.grid[2])
    elements = rows * heads * sizes.get("head_dim", int(traits[2]))
    width = 8 if "dot_do_o" in launch.name.family else 6
    return Work(bytes=elements * width, efficiency=0.8)


def flash_combine(launch: Launch, _gpu: GpuProfile) -> Work:
    """flash_fwd_splitkv_combine_kernel: partial outputs in fp32, log2 of their number is a template
    argument.
    """
    traits = _TRAITS.search(launch.name.text)
    if traits is None:  # a kernel of the program's own
        return guessed(launch)
    sizes = launch.sizes
    heads = sizes.get("batch", launch.grid[1]) * sizes.get("heads", launch.grid[2])
    rows = sizes.get("seqlen_q", launch.grid[0] * int(traits[3])) * heads
    log_splits = next((int(part) for part in launch.name.template[2:3] if part.isdigit()), 2)
    elements = rows * sizes.get("head_dim", int(traits[2]))
    return Work(bytes=elements * (4 * 2**log_splits + 2), sound="seqlen_q" in sizes)


@dataclass(frozen=True)
class PassSizes:
    """What a pass multiplies. `scores`: elements of all score matrices, whether masked or not."""

    scores: int
    depth: tuple[int, int]
    """Of a head's Q, and of its V."""
    backward: bool
    type: str


def pass_sizes(launch: Launch) -> PassSizes | None:
    """Of a launch of `flash_pass` or `efficient_pass`; None where its signature hides them."""
    sizes = launch.sizes
    if not {"seqlen_q", "seqlen_k", "head_dim"} <= sizes.keys():
        return None
    text = launch.name.text
    scores, depth = sizes["seqlen_q"] * sizes["seqlen_k"], sizes["head_dim"]
    if (efficient := _EFFICIENT.search(text)) is not None:
        scores *= launch.grid[1] * launch.grid[2]
        depths = depth, sizes.get("head_dim_value", depth)
        # Single precision is made of TF32 products.
        number = efficient[2].replace("f32", "tf32")
        return PassSizes(scores, depths, efficient[1] == "B", number)
    traits = _TRAITS.search(text)
    assert traits is not None, text
    if not {"batch", "heads"} <= sizes.keys():
        return None
    number = "bf16" if "bfloat16" in text else "f16"
    scores = round(scores * sizes["batch"] * sizes["heads"] * share_of_longest(sizes))
    return PassSizes(scores, (depth, depth), traits[1] == "bwd", number)
