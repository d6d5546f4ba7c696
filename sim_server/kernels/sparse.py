"""Products and conversions of sparse matrices, as cuSPARSE takes them: by their bytes, assumed.

What is not zero is anywhere, so for each such element a row of the dense operand is fetched. From
the cache, where the operand fits it: then it comes from memory once. A triangular solve is counted
as the product with its matrix: how many rows wait for others depends on where its elements are.
"""

from __future__ import annotations

from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.gemm import number_bytes
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.work import Work
from sim_server.records.payloads import SparseOperation

# Share of a streaming kernel's rate that scattered rows reach.
_EFFICIENCY = 0.5
# Of a sparse matrix with a dense one; those of square blocks have an index for many elements.
_BLOCK_PRODUCTS = ("bsrmm", "bsrmv", "bsrsm", "bsrsv")
_PRODUCTS = ("spmm", "spmv", "spsm", "spsv", *_BLOCK_PRODUCTS)
# Passes of a radix sort by bytes of the key, and what each moves of key and permutation.
_SORT_PASSES = 8
_SORTED_BYTES = 2 * (8 + 4)


def time_sparse(signature: SparseOperation, gpu: GpuProfile) -> Timing:
    """The timing of a {"kind": "library", "library": "cusparse"} payload."""
    operation = str(signature["operation"])
    sizes = "x".join(str(size) for size in _sizes(signature) if size)
    work = Work(
        bytes=_bytes(operation, signature, gpu) * signature["batch"],
        flops=2 * signature["nonzeros"] * _width(operation, signature) * signature["batch"],
        efficiency=_EFFICIENCY,
        cold=True,
    )
    return Timing(
        duration_ns=ceil(work.duration_ns(gpu, gpu.sm_count)),
        tier=Tier.ASSUMED,
        kernel_class="library",
        name=f"cusparse {operation} {sizes} of {signature['nonzeros']}",
        sm_demand=1.0,
    )


def _sizes(signature: SparseOperation) -> tuple[int, int, int]:
    return signature["m"], signature["n"], signature["k"]


def _width(operation: str, signature: SparseOperation) -> int:
    """Products for each element that is not zero."""
    if operation in _PRODUCTS:
        return signature["n"]
    return {"sddmm": signature["k"], "spgemm": 1}.get(operation, 0)


def _bytes(operation: str, signature: SparseOperation, gpu: GpuProfile) -> int:
    """Of one matrix of the batch."""
    m, n, k = _sizes(signature)
    nonzeros, index = signature["nonzeros"], signature["index_bytes"]
    if operation == "coosort":
        return _SORT_PASSES * _SORTED_BYTES * nonzeros
    number = number_bytes(signature["type"])
    if operation in ("spgemm", "spgemm copy", "csrgeam"):
        # Each element that is added, or product of two, is read and written with its place.
        return 2 * nonzeros * (number + index) + m * index
    if operation not in (*_PRODUCTS, "sddmm"):
        return (m + nonzeros) * index
    structure = nonzeros * (number + index * (operation not in _BLOCK_PRODUCTS)) + (m + 1) * index
    # The dense operand that is looked into, and the one that is gone through from top to bottom.
    scattered, streamed = (n * k, m * k) if operation == "sddmm" else (k * n, m * n)
    if scattered * number > gpu.l2_bytes:
        scattered = max(scattered, nonzeros * _width(operation, signature))
    return structure + (scattered + streamed) * number
