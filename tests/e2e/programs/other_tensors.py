"""Operators on tensors that are more than a piece of memory, and on classes of a program's own."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.autograd import forward_ad

DENSE = torch.arange(8.0).view(2, 4)


class Named(torch.Tensor):  # type: ignore[misc]
    """A tensor with a class of its own, and nothing more."""


class Wrapped(torch.Tensor):  # type: ignore[misc]
    """Without memory of its own: each call goes on to what it holds."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Wrapped:
        made: Wrapped = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, device=held.device
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        held = [one.held if isinstance(one, Wrapped) else one for one in args]
        return func(*held, **(kwargs or {}))


def main() -> None:
    warnings.simplefilter("ignore")
    dense = DENSE.cuda()
    vector = torch.ones(4, device="cuda")
    print("product", tuple((dense.to_sparse_csr() @ vector).shape))
    print("sparse product", tuple((dense.to_sparse() @ vector).shape))
    print("elements", dense.to_sparse()._nnz(), dense.to_sparse_csr()._nnz())
    print("dense again", tuple(dense.to_sparse().to_dense().tril().shape))
    nested = torch.nested.nested_tensor([dense[0], dense[1, :2]])
    print("padded", tuple(nested.to_padded_tensor(0.0).shape))
    print("named", tuple(dense.as_subclass(Named).tril().shape))
    print("wrapped", Wrapped(dense).flip(0).tolist() == DENSE.flip(0).tolist())
    with torch.device("meta"):
        print("meta", tuple(torch.ones(2, 4).tril().shape))
    made = {one: torch.triu_indices(3, 3, 1, device=one) for one in ("cpu", "cuda", "meta")}
    with (
        forward_ad.dual_level()
    ):  # A bias without a tangent has zeros, for which there is no memory.
        dual = torch.nn.functional.linear(
            forward_ad.make_dual(dense, dense), dense, torch.ones(2, device="cuda")
        )
        print("forward", tuple(forward_ad.unpack_dual(dual).tangent.shape))
    print("of numbers alone", made["cpu"].tolist() == made["cuda"].tolist(), made["meta"].device)


if __name__ == "__main__":
    main()
