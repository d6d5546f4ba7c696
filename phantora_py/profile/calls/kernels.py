"""Kernels known by name: calls of PyTorch's operations that may launch the same one.

A signature names a kernel and its grid, not the operation that chose it, and does not tell all of
its operands. So a maker gives candidates, and whoever issues them looks at what was launched
(`phantora_py.profile.launches`): nothing is taken for the kernel that was asked for because it
should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from phantora_py.profile.calls import elementwise, indexing, lists, rows
from phantora_py.profile.calls.common import Call, Refusal
from sim_server.kernels.rules import find_rule
from sim_server.kernels.work import Launch

Maker = Callable[[Any, Launch], Iterator[Call]]

# The first whose pattern is found in the kernel's family makes the calls.
_MAKERS: tuple[tuple[re.Pattern[str], Maker], ...] = tuple(
    (re.compile(pattern), maker)
    for pattern, maker in (
        (r"multi_tensor_apply_kernel$", lists.multi_tensor),
        (r"::elementwise_kernel$", elementwise.strided),
        (r"elementwise_kernel$", elementwise.pointwise),
        (r"fused_dropout_kernel", elementwise.dropout),
        (r"distribution_\w+_kernel$", elementwise.random),
        (r"::reduce_kernel$", rows.reduction),
        (r"[sS]oft[mM]ax", rows.softmax),
        (r"softmax_warp", rows.softmax),
        (r"layer_norm|LayerNorm|RowwiseMoments|GammaBeta", rows.norm),
        (r"nll_loss", rows.nll_loss),
        (r"pytorch_flash::", rows.flash),
        (r"^fmha_cutlass[FB]_", rows.efficient),
        (r"vectorized_gather_kernel$", indexing.gather),
        (r"embedding_backward|compute_grad_weight|sum_and_scatter", indexing.embedding_backward),
        (r"CatArrayBatchedCopy", indexing.concatenate),
        (r"SortKVInPlace$", indexing.sort),
        (r"scan_innermost_dim|DeviceScan", indexing.scan),
        (r"max_pool_forward", indexing.max_pool),
        (r"avg_pool2d_out_cuda_frame$", indexing.average_pool),
    )
)


def kernel(torch: Any, signature: Mapping[str, Any]) -> Iterator[Call]:
    """Candidates. Raises: Refusal if there is no maker, or it does not know the operation."""
    launch = Launch.from_signature(signature)
    if "module" in signature:
        raise Refusal("a kernel that the program compiled itself")
    family = launch.name.family
    maker = next((make for pattern, make in _MAKERS if pattern.search(family)), None)
    is_known = False
    for call in maker(torch, launch) if maker else ():
        is_known = True
        yield call
    if not is_known:
        kernel_class = find_rule(family).kernel_class
        raise Refusal(f"no operation is known for such a kernel (class {kernel_class})")
