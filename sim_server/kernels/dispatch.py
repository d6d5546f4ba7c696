"""How fast a GPU starts blocks: what bounds kernels whose blocks have next to nothing to do."""

from __future__ import annotations

from sim_server.gpu import GpuProfile
from sim_server.kernels.work import Launch

# Of the whole GPU, for each block: fitted to `arange`, `randperm` and lookups of short rows, with
# 16,000 to 260,000 blocks of 32 and 64 threads, on H100 (docs/accuracy-operators.md): 0.6 ns.
_BLOCK_CYCLES = 1.2


def dispatch_cycles(launch: Launch, gpu: GpuProfile) -> float:
    """Cycles of all multiprocessors that the grid reaches, until its last block has begun."""
    return launch.blocks * _BLOCK_CYCLES * min(gpu.sm_count, launch.blocks)
