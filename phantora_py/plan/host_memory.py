"""Tables in host memory, as FBGEMM has them: unified memory that stays on the host.

With `fused_uvm` kernels read and write rows over the GPU's link to the host. With
`fused_uvm_caching` GPU memory has a cache of rows, least recently used first to go: before the
lookups of a batch the rows that it lacks are copied there, and as many go back. Of an optimizer's
state what a row has one number of stays in GPU memory; the rest is with the weights, not cached.
Source: `construct_split_state` and `lru_cache_populate` of fbgemm_gpu 1.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.lookup import STATES, TableLookups
from sim_server.lookups import Share, hit_rates

UVM, UVM_CACHING = "fused_uvm", "fused_uvm_caching"
HOST_KERNELS = (UVM_CACHING, UVM)
# Of a row's state, what is one number: it stays in GPU memory.
_ROWWISE_BYTES = {"rowwise_adagrad": 4, "partial_rowwise_adam": 4}
# Of each row, the table that it is of; of each place in the cache, its row and when it was used.
# Source: the estimator of torchrec 1.3.
_ROW_BYTES, _PLACE_BYTES = 4, 16


@dataclass(frozen=True)
class HostRows:
    """What one shard moves over the link in an iteration, and what memory it takes.

    `link_bytes`: both ways. `hit_rate`: of the cache in GPU memory, None without one.
    """

    forward_ns: float
    backward_ns: float
    link_bytes: float
    hit_rate: float | None
    gpu_bytes: float
    host_bytes: float


def host_rows(
    work: TableLookups, rows: int, load_factor: float | None, gpu: GpuProfile
) -> HostRows:
    """Of a shard with so many rows. `load_factor`: the share of them that the cache has places
    for; None without a cache. Both directions of the link are used at the same time (assumed).
    """
    row_bytes = work.dim * work.element_bytes
    near_bytes = _ROWWISE_BYTES.get(work.optimizer, 0)
    far_bytes = STATES[work.optimizer](work.dim) - near_bytes
    looked_up = work.table.distinct(work.lookups) if work.lookups else 0.0
    updated = looked_up * far_bytes
    gpu_bytes: float = rows * near_bytes
    if load_factor is None:
        # Rows are read for each lookup, and updated once.
        hit_rate, read, written_back = None, work.lookups * row_bytes, 0.0
        updated += looked_up * row_bytes
    else:
        places = ceil(load_factor * rows)
        hit_rate = _hit_rate(work, places)
        read = written_back = work.lookups * (1 - hit_rate) * row_bytes
        gpu_bytes += rows * _ROW_BYTES + places * (row_bytes + _PLACE_BYTES)
    link_bytes_per_ns = gpu.copies["pinned_bytes_per_s"] / 1e9
    return HostRows(
        forward_ns=read / link_bytes_per_ns,
        backward_ns=updated / link_bytes_per_ns,
        link_bytes=read + written_back + 2 * updated,
        hit_rate=hit_rate,
        gpu_bytes=gpu_bytes,
        host_bytes=rows * (row_bytes + far_bytes),
    )


def _hit_rate(work: TableLookups, places: int) -> float:
    """After many batches."""
    if not work.lookups:
        return 1.0
    (found,) = hit_rates([Share(work.table, work.lookups, 1.0)], places, warm=True)
    return found
