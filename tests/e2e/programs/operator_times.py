"""Prints, for operators on large tensors, what they take by what their tensors take to be moved
once at the memory's nominal rate, in GB/s: the first argument.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

GIB_QUARTER = 1 << 26  # elements of 256 MiB in f32
rate = float(sys.argv[1])
rows = torch.zeros(GIB_QUARTER // 1024, 1024, device="cuda")
halves = rows.half()
whole = torch.zeros(GIB_QUARTER // 1024, 1024, device="cuda", dtype=torch.int32)
longs = torch.zeros(GIB_QUARTER, device="cuda", dtype=torch.int64)
turned = torch.zeros(GIB_QUARTER // 2048, 1024, device="cuda", dtype=torch.complex64)
images = torch.zeros(64, 64, 128, 128, device="cuda")
last = images.to(memory_format=torch.channels_last)
volumes = torch.zeros(16, 16, 32, 64, 128, device="cuda")
lines = torch.zeros(64, 64, 16384, device="cuda")
places = torch.arange(len(rows), device="cuda")
vectors = torch.zeros(GIB_QUARTER // 3, 3, device="cuda")
template = "template <typename T> T sum_of(T x, T y) { return x + y; }"
sum_of = torch.cuda.jiterator._create_jit_fn(template)

Operator = Callable[[], object]


def size_bytes(found: object) -> int:
    """Of all tensors."""
    if isinstance(found, Tensor):
        return int(found.numel() * found.element_size())
    return sum(map(size_bytes, found)) if isinstance(found, tuple) else 0


def gradient(function: Callable[[Tensor], Tensor], source: Tensor) -> tuple[Tensor, Operator]:
    """What a backward pass reads, and the pass."""
    leaf = source.detach().requires_grad_()
    result = function(leaf)
    ahead = torch.zeros_like(result)
    return ahead, lambda: torch.autograd.grad(result, leaf, ahead, retain_graph=True)


def resized(mode: str) -> Callable[[Tensor], Tensor]:
    """To twice the size."""
    return lambda source: functional.interpolate(source, scale_factor=2, mode=mode)


COMPILED: dict[str, tuple[object, Operator]] = {
    "prod of all": (rows, rows.prod),
    "prod of rows": (rows, lambda: rows.prod(1)),
    "prod of columns": (rows, lambda: rows.prod(0)),
    "prod of halves": (halves, lambda: halves.prod(1)),
    "prod of complex": (turned, lambda: turned.prod(1)),
    "gcd": ((whole, whole), lambda: torch.gcd(whole, whole)),
    "gcd, strided": ((whole,), lambda: torch.gcd(whole[:, ::2], whole[:, 1::2])),
    "digamma": (rows, lambda: torch.digamma(rows)),
    "digamma of integers": (whole, lambda: torch.digamma(whole)),
    "bessel_j0": (rows, lambda: torch.special.bessel_j0(rows)),
    "erfcx": (rows, lambda: torch.special.erfcx(rows)),
    "zeta": ((rows, rows), lambda: torch.special.zeta(rows, rows)),
    "sigmoid of complex": (turned, lambda: torch.sigmoid(turned)),
    "jiterator": ((rows, rows), lambda: sum_of(rows, rows)),
}
MOVING: dict[str, tuple[object, Operator]] = {
    "nearest": (images, lambda: resized("nearest")(images)),
    "nearest, gradient": gradient(resized("nearest"), images),
    "nearest, channels last": (last, lambda: resized("nearest")(last)),
    "nearest, channels last, gradient": gradient(resized("nearest"), last),
    "bilinear, channels last": (last, lambda: resized("bilinear")(last)),
    "nearest of lines": (lines, lambda: resized("nearest")(lines)),
    "nearest of lines, gradient": gradient(resized("nearest"), lines),
    "nearest of volumes": (volumes, lambda: resized("nearest")(volumes)),
    "nearest of volumes, gradient": gradient(resized("nearest"), volumes),
    "avg_pool2d, gradient": gradient(lambda source: functional.avg_pool2d(source, 2), images),
    "avg_pool2d, channels last": (last, lambda: functional.avg_pool2d(last, 2)),
    "max_pool2d, channels last, gradient": gradient(
        lambda one: functional.max_pool2d(one, 2), last
    ),
    "adaptive_avg_pool2d, gradient": gradient(
        lambda one: functional.adaptive_avg_pool2d(one, 7), images
    ),
    "adaptive_avg_pool2d, channels last": (last, lambda: functional.adaptive_avg_pool2d(last, 7)),
    "adaptive_max_pool2d, gradient": gradient(
        lambda one: functional.adaptive_max_pool2d(one, 7), images
    ),
    "group_norm, gradient": gradient(lambda one: functional.group_norm(one, 8), images),
    "rrelu": (rows, lambda: functional.rrelu(rows, training=True)),
    "flip": (rows, lambda: rows.flip(1)),
    "roll": (rows, lambda: rows.roll(3)),
    "index_copy": (rows, lambda: rows.index_copy_(0, places, whole.view_as(rows).view(rows.dtype))),
    "cross": ((vectors, vectors), lambda: torch.linalg.cross(vectors, vectors)),
    "bernoulli": (rows, lambda: torch.bernoulli(rows)),
    "linspace": ((), lambda: torch.linspace(0, 1, GIB_QUARTER, device="cuda")),
    "arange": ((), lambda: torch.arange(GIB_QUARTER, device="cuda")),
    "bincount": (longs, lambda: torch.bincount(longs, minlength=1000)),
    "histc": (rows, lambda: torch.histc(rows, 100, 0, 1)),
    "mode": (rows, lambda: rows.mode(1)),
    "sort of rows": (rows, lambda: rows.view(-1, 8192).sort(1)),
    "kthvalue of all": (rows, lambda: rows.view(-1).kthvalue(5)),
}


def share(source: object, operator: Operator) -> float:
    """A second time, when what it allocates is there."""
    moved = size_bytes(source) + size_bytes(operator())
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    operator()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end) * 1e6 / (moved / rate))


print(
    json.dumps(
        {
            part: {name: round(share(*one), 2) for name, one in operators.items()}
            for part, operators in (("compiled", COMPILED), ("moving", MOVING))
        }
    )
)
