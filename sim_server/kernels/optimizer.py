"""Multi-tensor kernels (torch._foreach_*, fused optimizers): a block works on a chunk of 65,536
elements.
"""

from __future__ import annotations

import re

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import number_types
from sim_server.kernels.work import Launch, Work

_CHUNK_ELEMENTS = 65536
_METADATA = re.compile(r"ListMetadata<(?:[\w:<> ]+, )?(\d+)>")
# <type, depth, lists read, list written>, for all functors of ForeachFunctors.cuh.
_SHAPE = re.compile(r"Functor<[\w:<> ,()]*?(\d+), (\d+), (\d+)>$")
_EFFICIENCY = 0.9
# Elements that the 512 threads of a block load at a time, and how much longer they wait where there
# are more lists: fitted to launches of few blocks on H100 (docs/accuracy-operators.md).
_TURN_ELEMENTS = 2048
_WAIT_OF_A_LIST = 0.3


def multi_tensor(launch: Launch, _gpu: GpuProfile) -> Work:
    """multi_tensor_apply_kernel: elements from the list's metadata, lists and types from the
    functor's name.
    """
    elements = launch.sizes.get("elements")
    functor = launch.name.template[1] if len(launch.name.template) > 1 else ""
    sound = elements is not None
    if elements is None:
        elements = launch.blocks * _CHUNK_ELEMENTS
    width = _element_bytes(launch, functor, elements)
    flops = elements * 20 if "Fused" in functor else 0
    lists = width / (number_types(functor) or [4])[0]
    turns = min(elements / launch.blocks, _CHUNK_ELEMENTS) / _TURN_ELEMENTS
    return Work(
        bytes=elements * width,
        flops=flops,
        efficiency=_EFFICIENCY,
        waits=turns * (1 + _WAIT_OF_A_LIST * (lists - 1)),
        cold=True,
        sound=sound,
    )


def norm_cleanup(launch: Launch, _gpu: GpuProfile) -> Work:
    """lpnorm_cleanup(..., chunks): a block per tensor adds the partial norms of its chunks."""
    chunks = launch.integer(-1)
    return Work(bytes=launch.blocks * 4 * (chunks or launch.threads), sound=chunks is not None)


def _element_bytes(launch: Launch, functor: str, elements: int) -> float:
    sizes = number_types(functor) or [4]
    metadata = _METADATA.search(launch.name.template[0])
    depth = int(metadata[1]) if metadata else 1
    if "Fused" in functor:
        # Everything is read; everything but the gradient is written.
        return (2 * depth - 1) * sizes[0]
    if "LpNorm" in functor or "LpMax" in functor:
        return sizes[0]
    if "CopyFunctor" in functor:
        return sum(sizes[:2]) if len(sizes) > 1 else 2 * sizes[0]
    if "ZeroFunctor" in functor:
        return sizes[0]
    shape = _SHAPE.search(functor)
    read = int(shape[2]) if shape else depth
    # A list that is given twice is read once: optimizers square gradients so.
    different = launch.sizes.get("different_elements")
    repeated = 0 if different is None else depth - different / elements
    return (read + 1 - repeated) * sizes[0]
