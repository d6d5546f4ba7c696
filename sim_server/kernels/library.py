"""Calls of other vendor libraries, whose signature names an operation and its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import Any, cast

from sim_server.gpu import GpuProfile
from sim_server.kernels.cudnn import time_cudnn
from sim_server.kernels.gemm import number_bytes
from sim_server.kernels.solver import STEPS, time_solver
from sim_server.kernels.sparse import time_sparse
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.work import Work
from sim_server.records.payloads import CudnnSignature, Factorization, SparseOperation

_NOT_SIZES = frozenset({"kind", "library", "operation", "type"})


def time_library(signature: Mapping[str, Any], gpu: GpuProfile) -> Timing:
    """The timing of a {"kind": "library"} payload.

    `bytes` and `flops` are used where the payload has them. Otherwise every operand is assumed to
    have as many elements as the product of the sizes, three operands are moved, and the tier is
    assumed.
    """
    if signature.get("library") == "cudnn":
        return time_cudnn(cast(CudnnSignature, signature), gpu)
    is_solved = signature.get("library") == "cublas" and signature.get("operation") in STEPS
    if is_solved or signature.get("library") == "cusolver":
        return time_solver(cast(Factorization, signature), gpu)
    if signature.get("library") == "cusparse":
        return time_sparse(cast(SparseOperation, signature), gpu)
    sizes = {k: v for k, v in signature.items() if k not in _NOT_SIZES and isinstance(v, int)}
    number = str(signature.get("type", "f32"))
    known = "bytes" in sizes or "flops" in sizes
    elements = prod(max(1, size) for size in sizes.values()) if not known else 0
    traffic = sizes.get("bytes", 3 * elements * number_bytes(number))
    arithmetic_ns = sizes.get("flops", 0) / (0.6 * gpu.peak_flops_per_ns(number))
    work = Work(bytes=traffic, serial_ns=arithmetic_ns, cold=True)
    return Timing(
        duration_ns=ceil(work.duration_ns(gpu, gpu.sm_count)),
        tier=Tier.ASSUMED,
        kernel_class="library",
        name=f"{signature.get('library', 'library')} {signature.get('operation', '')}".strip(),
        sm_demand=1.0,
    )
