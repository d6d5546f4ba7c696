"""FBGEMM's kernels of embedding tables, by name and grid.

Their sizes are in structures that are not read; a warp, or a part of one, has a bag (forward) or a
row (backward).

Source of names, template arguments and grids: fbgemm_gpu 1.3, as launched on a simulated GPU.
"""

from __future__ import annotations

from sim_server.gpu import GpuProfile
from sim_server.kernels.lookup import SECTOR_BYTES, narrow_factor
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch, Work

# Assumed: lookups of a bag, all of different rows.
_POOLING = 20
_ROWS = 0.93
_INDEX_BYTES = 8
_LANE_ELEMENTS = 4


def _groups(launch: Launch) -> int:
    """Parts of blocks that have a bag or a row each."""
    return launch.blocks * max(1, launch.block[1] if len(launch.block) > 1 else 1)


def _dim(launch: Launch) -> int | None:
    """Elements of the widest row that the kernel is compiled for: the template's vectors of a
    lane, and lanes of a group.
    """
    numbers = [int(word) for one in launch.name.template if (word := one.rstrip("ul ")).isdigit()]
    return numbers[0] * numbers[1] * _LANE_ELEMENTS if len(numbers) > 1 else None


def bags_and_dim(launch: Launch) -> tuple[int, int] | None:
    """Bags of a forward kernel and elements of the widest row; None if its name does not tell."""
    dim = _dim(launch)
    return None if dim is None else (_groups(launch), dim)


def _unknown(launch: Launch) -> Work:
    return Work(bytes=launch.blocks * launch.threads * 16, sound=False)


def forward(launch: Launch, _gpu: GpuProfile) -> Work:
    """*_embedding_codegen_forward_*kernel<weights, cache, output, ..., vectors, lanes>."""
    dim = _dim(launch)
    if dim is None:
        return _unknown(launch)
    row_bytes = max(SECTOR_BYTES, dim * (type_bytes(launch.name.template[0]) or 4))
    bag_bytes = _POOLING * (row_bytes + _INDEX_BYTES) + dim * 4 + _INDEX_BYTES
    moved = _groups(launch) * bag_bytes
    return Work(bytes=moved, efficiency=_ROWS / narrow_factor(dim), cold=True, sound=False)


def backward(launch: Launch, _gpu: GpuProfile) -> Work:
    """*_embedding_backward_codegen_*_warp_per_row_*<weights, ...>: at most a group for each lookup,
    which reads a gradient, and reads and writes its row and the optimizer's state.
    """
    dim = _dim(launch)
    if dim is None:
        return _unknown(launch)
    row_bytes = max(SECTOR_BYTES, dim * (type_bytes(launch.name.template[0]) or 4))
    lookup_bytes = dim * 4 + 2 * (row_bytes + SECTOR_BYTES) + 2 * _INDEX_BYTES
    moved = _groups(launch) * lookup_bytes
    return Work(bytes=moved, efficiency=_ROWS / narrow_factor(dim), cold=True, sound=False)
