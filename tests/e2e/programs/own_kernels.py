"""Kernels that the program compiles itself: by Triton, and by NVRTC."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TWICE = "template <typename T> T twice(T x) { return x + x; }"
BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def scale(source, target, count, factor, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Multiplies numbers."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    here = at < count
    tl.store(target + at, factor * tl.load(source + at, mask=here), mask=here)


numbers = torch.ones(1 << 16, device="cuda")
results = torch.empty_like(numbers)
scale[(len(numbers) // BLOCK,)](numbers, results, len(numbers), 2.0, BLOCK)
torch.cuda.jiterator._create_jit_fn(TWICE)(numbers)
torch.cuda.synchronize()
