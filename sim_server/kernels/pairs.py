"""Kernels that go over pairs: distances between rows, margins between classes."""

from __future__ import annotations

from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch, Work, guessed

# Assumed: share of a streaming kernel's rate where a block of few threads has a row.
_ROWS = 0.6
# Assumed: what a multiprocessor takes to issue the instructions of a block of eight warps for one
# pair of rows, as far as its threads reach: an element each, and their sum.
_PAIR_CYCLES = 100


def distances(launch: Launch, _gpu: GpuProfile) -> Work:
    """cdist_kernel_cuda_impl(out, left, right, p, rows of right, columns, ...) and
    pdist_kernel_cuda_impl(out, in, rows, columns, ..., pairs): a block for each pair, or one for
    many in turn. Source: aten/src/ATen/native/cuda/DistanceKernel.cu.
    """
    columns, pairs = launch.integer(1), launch.integer(-1)
    if not columns or not pairs:
        return guessed(launch)
    # Before the last argument was the number of pairs, the grid was.
    pairs = max(pairs, launch.blocks)
    strides = ceil(columns / launch.threads)
    return Work(
        bytes=pairs * (type_bytes(launch.name.template[0]) or 4),
        cycles=pairs * strides * _PAIR_CYCLES,
        sound=False,
    )


def margin_loss(launch: Launch, _gpu: GpuProfile) -> Work:
    """MultiMarginLoss_*_kernel(..., rows, classes, ...) and multilabel_margin_loss_*_kernel, which
    has a mark of each class beside its value. Source: aten/src/ATen/native/cuda/MultiMarginLoss.cu,
    MultiLabelMarginCriterion.cu.
    """
    rows, classes = launch.integer(0), launch.integer(1)
    if not rows or not classes:
        return guessed(launch)
    family, template = launch.name.family, launch.name.template
    tensors = 1 + ("backward" in family) + ("multilabel" in family)
    moved = rows * classes * tensors * (type_bytes(template[-1]) or 4)
    return Work(bytes=moved, efficiency=_ROWS, sound=False)
