"""Kernels that fetch pixels from elsewhere in an image: padding that repeats an image's own, and
sampling at the places that a grid names.

All cycles are of a multiprocessor, fitted to images of 56 and 112 pixels a side on H100
(docs/accuracy-operators.md). Gradients are added by atomics, of which those of two bytes exchange
four and try again where another was faster.
"""

from __future__ import annotations

from sim_server.gpu import GpuProfile
from sim_server.kernels.windows import element_bytes
from sim_server.kernels.work import Launch, Work, guessed

# Assumed: share of a streaming kernel's rate.
_FETCHED = 0.9
# Of a thread, which has an element of the padded image, by whether the edge is repeated: of the
# image, of its gradient, and of that in two bytes.
_PADDED_CYCLES = {False: 1.5, True: 1.25}
_PADDED_GRADIENT_CYCLES = {False: 1.56, True: 1.29}
_PADDED_HALF_GRADIENT_CYCLES = {False: 2.6, True: 3.0}
# Of a result, and of its gradient, of a grid of random places, whose four pixels are seldom in the
# L1 cache; by the bytes of an element. Of other sizes: assumed.
_SAMPLED_CYCLES = {2: 2.8, 4: 4.1}
_SAMPLED_GRADIENT_CYCLES = {2: 16.4, 4: 14.0}


def padded(launch: Launch, _gpu: GpuProfile) -> Work:
    """reflection_pad*_out_kernel, replication_pad_forward_kernel*d and their gradients: a thread
    for each element of the padded image, whose place divisions find. Source:
    aten/src/ATen/native/cuda/ReflectionPad.cu, ReplicationPadding.cu. Of one and three dimensions:
    assumed as of two.
    """
    is_repeated, size = "replication" in launch.name.family, element_bytes(launch)
    cycles = _PADDED_CYCLES[is_repeated]
    if "backward" in launch.name.family:
        of_halves = size == 2
        costs = _PADDED_HALF_GRADIENT_CYCLES if of_halves else _PADDED_GRADIENT_CYCLES
        cycles = costs[is_repeated]
    threads = launch.blocks * launch.threads
    moved = launch.sizes.get("tensor_bytes", threads * 2 * size)
    return Work(bytes=moved, efficiency=_FETCHED, cycles=threads * cycles, region="images")


def sampled(launch: Launch, _gpu: GpuProfile) -> Work:
    """grid_sampler_2d_kernel(places, in, grid, out, ...) and grid_sampler_2d_backward_kernel: a
    thread has a place of an image and goes over its channels. Source:
    aten/src/ATen/native/cuda/GridSampler.cu. Fitted to bilinear sampling. Older data files do not
    tell results: half of what is moved, or of gradients a third (assumed).
    """
    results, moved = launch.sizes.get("results"), launch.sizes.get("tensor_bytes")
    if not moved:
        return guessed(launch)
    is_gradient, size = "backward" in launch.name.family, element_bytes(launch)
    count = results or moved / size / (3 if is_gradient else 2)
    costs = _SAMPLED_GRADIENT_CYCLES if is_gradient else _SAMPLED_CYCLES
    return Work(
        bytes=moved,
        efficiency=_FETCHED,
        cycles=count * costs.get(size, costs[4]),
        sound=bool(results) and size in costs,
        region="images",
    )
