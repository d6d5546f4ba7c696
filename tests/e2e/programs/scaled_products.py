"""Matrix products beyond the plain one: FP8 by rows and by tensor, grouped."""

from __future__ import annotations

import sys

import torch

M, N, K, GROUPS, STEPS = 1024, 512, 768, 4, 3


def fp8(scales: str) -> torch.Tensor:
    """`tensor` or `rows`."""
    a = torch.randn(M, K, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(N, K, device="cuda").to(torch.float8_e4m3fn)
    by_rows = scales == "rows"
    scale_a = torch.ones((M, 1) if by_rows else (), device="cuda")
    scale_b = torch.ones((1, N) if by_rows else (), device="cuda")
    return torch._scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=torch.bfloat16)


def grouped() -> torch.Tensor:
    """Rows of one matrix by one of several matrices each, with gradients."""
    a = torch.randn(M, K, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    b = torch.randn(GROUPS, K, N, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    ends = torch.arange(M // GROUPS, M + 1, M // GROUPS, device="cuda", dtype=torch.int32)
    product = torch.nn.functional.grouped_mm(a, b, offs=ends)
    (product * product).sum().backward()
    return product


def routed() -> torch.Tensor:
    """In f32, for which there is no kernel, with groups that nobody knows the sizes of."""
    a = torch.randn(M, K, device="cuda", requires_grad=True)
    b = torch.randn(GROUPS, K, N, device="cuda", requires_grad=True)
    ends = (a @ a.T).sum(1)[:GROUPS].int().cumsum(0, dtype=torch.int32)
    product = torch.nn.functional.grouped_mm(a, b, offs=ends)
    (product * product).sum().backward()
    return product


def main() -> None:
    makes = {"grouped": grouped, "routed": routed}
    for name in sys.argv[1:]:
        for _ in range(STEPS):
            product = makes[name]() if name in makes else fp8(name)
        torch.cuda.synchronize()
        print(f"{name} {tuple(product.shape)} {product.dtype}", flush=True)


if __name__ == "__main__":
    main()
