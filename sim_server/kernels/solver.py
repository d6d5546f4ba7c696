"""Dense factorisations, eigenvalues and singular values, as cuSOLVER takes them: all assumed.

Such an algorithm goes through the columns, or panels of them, one after the other, and each step is
short and waits for the last. That, not arithmetic, is most of the time of the sizes that training
has.
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
    """So many columns are one step of so long."""

    columns: int
    step_ns: int


STEPS = {
    "potrf": Steps(32, 10_000),
    "potrs": Steps(64, 10_000),
    "getrf": Steps(32, 40_000),
    "getrs": Steps(64, 10_000),
    "sytrf": Steps(32, 40_000),
    "sytrs": Steps(64, 10_000),
    "geqrf": Steps(32, 60_000),
    "orgqr": Steps(32, 15_000),
    "ormqr": Steps(32, 15_000),
    "syevd": Steps(1, 20_000),
    "geev": Steps(1, 60_000),
    "gesvd": Steps(1, 40_000),
}
# Of the peak outside the tensor cores, by what is left to do beside the steps.
_EFFICIENCY = 0.3


def time_solver(signature: Factorization, gpu: GpuProfile) -> Timing:
    """The timing of a {"kind": "library", "library": "cusolver"} payload.

    Steps of the matrices of a batch run beside each other, one matrix a multiprocessor.
    """
    operation = str(signature["operation"])
    steps = STEPS[operation]
    waves = ceil(signature["batch"] / gpu.sm_count)
    serial_ns = ceil(min(signature["m"], signature["n"]) / steps.columns) * steps.step_ns * waves
    arithmetic_ns = signature["flops"] / (_EFFICIENCY * gpu.peak_flops_per_ns(signature["type"]))
    work = Work(bytes=signature["bytes"], serial_ns=serial_ns + arithmetic_ns, cold=True)
    return Timing(
        duration_ns=ceil(work.duration_ns(gpu, gpu.sm_count)),
        tier=Tier.ASSUMED,
        kernel_class="library",
        name=f"cusolver {operation} {signature['m']}x{signature['n']}",
        sm_demand=1.0,
    )
