"""FBGEMM's kernels of embedding tables, by name, grid and the sizes of their tensors.

A warp, or a part of one, has a bag or a lookup (forward) or a row (backward). How many different
rows are looked up a launch tells whose indices are known; else they are taken as drawn evenly from
all rows of the kernel's tables.

Source of names, template arguments and grids: fbgemm_gpu 1.3, as launched on a simulated GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sim_server.gpu import GpuProfile
from sim_server.kernels.lookup import (
    SECTOR_BYTES,
    STATES,
    LookupModel,
    TableLookups,
    narrow_factor,
)
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch, Work, guessed
from sim_server.lookups.distributions import repeating, uniform

# Assumed of kernels whose tensors are not read: lookups of a bag, all of different rows.
_POOLING = 20
_ROWS = 0.93
_INDEX_BYTES = 8
_LANE_ELEMENTS = 4
# The fused optimizers in kernels' names; dense gradients are summed and written.
_OPTIMIZER = re.compile(
    r"codegen_(partial_rowwise_adam|rowwise_adagrad|adagrad|adam|sgd|dense)(?:_|$)"
)


@dataclass(frozen=True)
class LaunchedLookups:
    """What a launch looks up. `bags`: results, which a kernel without bags has for each lookup.

    `rows`: of all its tables together.
    """

    lookups: int
    bags: int
    dim: int
    rows: int
    element_bytes: int
    has_bags: bool
    distinct: int | None
    """Different rows; None: the indices are not known."""


def _groups(launch: Launch) -> int:
    """Parts of blocks that have a bag or a row each."""
    return launch.blocks * max(1, launch.block[1] if len(launch.block) > 1 else 1)


def _dim(launch: Launch) -> int | None:
    """Elements of the widest row that the kernel is compiled for: the template's vectors of a
    lane, and lanes of a group.
    """
    numbers = [int(word) for one in launch.name.template if (word := one.rstrip("ul ")).isdigit()]
    return numbers[0] * numbers[1] * _LANE_ELEMENTS if len(numbers) > 1 else None


def _has_bags(launch: Launch) -> bool:
    return "_nobag_" not in launch.name.family


def _element_bytes(launch: Launch) -> int:
    return type_bytes(launch.name.template[0]) or 4


def bags_and_dim(launch: Launch) -> tuple[int, int] | None:
    """Bags of a forward kernel and elements of the widest row; None if its name does not tell."""
    dim = _dim(launch)
    return None if dim is None else (_groups(launch), dim)


def launched_lookups(launch: Launch) -> LaunchedLookups | None:
    """What the tensors of a launch tell; None if they are not read, or nothing is looked up."""
    sizes = launch.sizes
    lookups, results = sizes.get("lookups", 0), sizes.get("results", 0)
    dim: int | None
    if not _has_bags(launch):
        dim = results // lookups if lookups else 0
    elif "bags" in sizes:
        dim = results // max(1, sizes["bags"])
    else:
        dim = _dim(launch)
    if not lookups or not dim:
        return None
    return LaunchedLookups(
        lookups=lookups,
        bags=max(1, results // dim),
        dim=dim,
        rows=max(1, sizes.get("weights", 0) // dim),
        element_bytes=_element_bytes(launch),
        has_bags=_has_bags(launch),
        distinct=sizes.get("distinct"),
    )


def _work(found: LaunchedLookups, optimizer: str = "sgd") -> TableLookups:
    table = uniform(found.rows)
    if found.distinct is not None:
        table = repeating(found.rows, found.lookups, found.distinct)
    return TableLookups(
        table=table,
        samples=found.bags,
        lookups=found.lookups,
        dim=found.dim,
        element_bytes=found.element_bytes,
        optimizer=optimizer,
    )


def forward(launch: Launch, gpu: GpuProfile) -> Work:
    """*_embedding_[nobag_]codegen_forward_*kernel<weights, cache, output, ..., vectors, lanes>."""
    if found := launched_lookups(launch):
        (time,) = LookupModel(gpu).forward([_work(found)])
        # With a cache, all rows have been brought there before.
        has_cache = len(launch.name.template) > 3 and launch.name.template[3] == "true"
        return Work(
            bytes=0,
            serial_ns=time.duration_ns,
            sound=found.distinct is not None,
            weights_bytes=0 if has_cache else found.lookups * found.dim * found.element_bytes,
        )
    dim = _dim(launch)
    if dim is None:
        return guessed(launch)
    row_bytes = max(SECTOR_BYTES, dim * _element_bytes(launch))
    bag_bytes = _POOLING * (row_bytes + _INDEX_BYTES) + dim * 4 + _INDEX_BYTES
    moved = _groups(launch) * bag_bytes
    return Work(bytes=moved, efficiency=_ROWS / narrow_factor(dim), cold=True, sound=False)


def backward(launch: Launch, gpu: GpuProfile) -> Work:
    """*_embedding_[nobag_]backward_codegen_*_warp_per_row_*<weights, ...>: a group for each row,
    which reads the gradients of its lookups, and reads and writes the row and the optimizer's
    state.
    """
    if found := launched_lookups(launch):
        named = _OPTIMIZER.search(launch.name.family)
        optimizer = named.group(1) if named and named.group(1) in STATES else "sgd"
        time = LookupModel(gpu).update(_work(found, optimizer))
        # Each row is read and written; there are as many as lookups, if nobody knows better.
        rows_bytes = (found.distinct or found.lookups) * found.dim * found.element_bytes
        return Work(bytes=0, serial_ns=time.duration_ns, sound=False, weights_bytes=2 * rows_bytes)
    dim = _dim(launch)
    if dim is None:
        return guessed(launch)
    row_bytes = max(SECTOR_BYTES, dim * _element_bytes(launch))
    lookup_bytes = dim * 4 + 2 * (row_bytes + SECTOR_BYTES) + 2 * _INDEX_BYTES
    moved = _groups(launch) * lookup_bytes
    return Work(bytes=moved, efficiency=_ROWS / narrow_factor(dim), cold=True, sound=False)
