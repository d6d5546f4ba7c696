"""Dense factorisations, triangular solves, eigenvalues and singular values, as cuSOLVER and cuBLAS
take them.

Such an algorithm goes through the columns, or panels of them, one after the other, and each step is
short and waits for the last. That, not arithmetic, is most of the time of the sizes that training
has. Fitted in f32 to single matrices of 256 and 2,048 a side and to batches of 64 and 512 on an
H100 (docs/accuracy-operators.md), but for what says assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.work import Work
from sim_server.records.payloads import Factorization


@dataclass(frozen=True)
class Steps:
    """So many columns are one step of so long, of a matrix of 256 columns; its time grows with so
    great a power of their number.
    """

    columns: int
    step_ns: int
    growth: float = 0.0

    def time_ns(self, size: int) -> float:
        """Of a matrix."""
        return ceil(size / self.columns) * self.step_ns * float((size / 256) ** self.growth)


STEPS = {
    "potrf": Steps(32, 10_000),
    "potrs": Steps(64, 25_000),
    "getrf": Steps(32, 52_000, 0.18),
    "getrs": Steps(64, 20_000),
    "sytrf": Steps(32, 52_000, 0.18),  # assumed: as of getrf
    "sytrs": Steps(64, 20_000),  # assumed
    "geqrf": Steps(32, 93_000),
    "orgqr": Steps(32, 23_000),
    "ormqr": Steps(32, 23_000),  # assumed: as of orgqr
    "syevd": Steps(1, 18_000),
    "geev": Steps(1, 60_000),  # assumed
    "gesvd": Steps(1, 25_000, 0.6),
    "trsm": Steps(64, 14_000),
}
# The same of batches, whose matrices go side by side, by other kernels.
BATCHED_STEPS = {
    "potrf": Steps(32, 35_000),
    "getrf": Steps(16, 75_000),
    "trsm": Steps(64, 25_000),
}
# Larger matrices of a batch go one after the other.
_IN_TURN = {"syevd"}
_SIDE_BY_SIDE = 32
# Of the peak outside the tensor cores, by what is left to do beside the steps.
_EFFICIENCY = 0.3


def time_solver(signature: Factorization, gpu: GpuProfile) -> Timing:
    """The timing of a {"kind": "library"} payload of cuSOLVER or cuBLAS."""
    operation = str(signature["operation"])
    batch, size = signature.get("batch", 1), _columns(signature)
    steps = STEPS[operation]
    if batch > 1:
        steps = BATCHED_STEPS.get(operation, steps)
    turns = batch if operation in _IN_TURN and size > _SIDE_BY_SIDE else 1
    arithmetic_ns = signature["flops"] / (_EFFICIENCY * gpu.peak_flops_per_ns(signature["type"]))
    serial_ns = steps.time_ns(size) * turns + arithmetic_ns
    work = Work(bytes=signature["bytes"], serial_ns=serial_ns, cold=True)
    return Timing(
        duration_ns=ceil(work.duration_ns(gpu, gpu.sm_count)),
        tier=Tier.ASSUMED,
        kernel_class="library",
        name=f"{signature['library']} {operation} {signature['m']}x{signature['n']}",
        sm_demand=1.0,
    )


def _columns(signature: Factorization) -> int:
    """Through which it goes: of a triangular solve those of the triangle, which its operations
    tell, m x n x triangle, and not the right-hand sides, of which there may be one.
    """
    rows, columns = signature["m"], signature["n"]
    if signature["operation"] == "trsm":
        sides = rows * columns * signature.get("batch", 1)
        return max(1, signature["flops"] // max(1, sides))
    return min(rows, columns)
