"""What random_values.py does with tensors.

Each step is given a tensor, and an index, a mask and another tensor that fit it. What those of
MAKES return is new; those of CHANGES change the tensor, those of OUT write it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Step = Callable[..., Any]


def square(tensor: torch.Tensor) -> torch.Tensor:
    """A well-behaved matrix of its first elements."""
    first = tensor.flatten()[:1].double().clamp(-3, 3)
    return torch.eye(3, device=tensor.device, dtype=torch.float64) * 4 + first


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Of which it is known how many elements are not zero, and what integers they are."""
    if tensor.is_complex():
        raise TypeError("converted complex numbers are not known")
    return tensor


def matrix(tensor: torch.Tensor) -> torch.Tensor:
    return plain(tensor).reshape(len(tensor), -1).double()


# Of values that nobody knows the number of elements is made up (and counted), and so is what is
# made with it.
COUNTING = ("sparse", "sparse places", "sparse product")
MAKES: dict[str, Step] = {
    "add": lambda t, i, m, o: t + o,
    "subtract": lambda t, i, m, o: t - o,
    "multiply": lambda t, i, m, o: t * 2,
    "maximum": lambda t, i, m, o: torch.maximum(t, o),
    "compare": lambda t, i, m, o: t > o,
    "equal": lambda t, i, m, o: t == o,
    "not": lambda t, i, m, o: torch.logical_not(t),
    "absolute": lambda t, i, m, o: t.abs(),
    "where": lambda t, i, m, o: torch.where(m, t, o),
    "mask": lambda t, i, m, o: t.masked_fill(m, 1),
    "select": lambda t, i, m, o: t[m],
    "rows": lambda t, i, m, o: t[i],
    "index_select": lambda t, i, m, o: t.index_select(0, i),
    "take": lambda t, i, m, o: t.take(i),
    "nonzero": lambda t, i, m, o: t.nonzero(),
    "unique": lambda t, i, m, o: t.unique(return_counts=True),
    "sort": lambda t, i, m, o: t.sort(stable=True),
    "argsort": lambda t, i, m, o: t.argsort(stable=True),
    "top": lambda t, i, m, o: t.topk(1).values,
    "bincount": lambda t, i, m, o: t.flatten().abs().bincount(),
    "isin": lambda t, i, m, o: torch.isin(t, o),
    "sum": lambda t, i, m, o: t.sum(0),
    "sum all": lambda t, i, m, o: t.sum(),
    "mean": lambda t, i, m, o: t.mean(),
    "largest": lambda t, i, m, o: t.amax(-1),
    "any": lambda t, i, m, o: t.any(0),
    "running sum": lambda t, i, m, o: t.cumsum(0),
    "product": lambda t, i, m, o: t.reshape(1, -1) @ o.reshape(-1, 1),
    "cat": lambda t, i, m, o: torch.cat([t, o, t]),
    "stack": lambda t, i, m, o: torch.stack([t, o], -1),
    "flip": lambda t, i, m, o: t.flip(0),
    "roll": lambda t, i, m, o: t.roll(1, 0),
    "repeat": lambda t, i, m, o: t.flatten().repeat_interleave(2),
    "clone": lambda t, i, m, o: t.clone(),
    "contiguous": lambda t, i, m, o: t.contiguous(),
    "to float": lambda t, i, m, o: t.float(),
    "to int": lambda t, i, m, o: t.long(),
    "to bool": lambda t, i, m, o: t.bool(),
    "lists": lambda t, i, m, o: torch._foreach_add([t, o], 1),
    "lists max": lambda t, i, m, o: torch._foreach_maximum([t], [o]),
    "lists negate": lambda t, i, m, o: torch._foreach_neg([t, o]),
    "square": lambda t, i, m, o: t**2,
    "power of two": lambda t, i, m, o: 2 ** t.clamp(0, 5),
    "divide": lambda t, i, m, o: torch.div(t, 3, rounding_mode="trunc"),
    "multiply and add": lambda t, i, m, o: torch.addcmul(t, o, o),
    # Into memory that nobody has written: of the CPU's tensor it is what happened to be there.
    "set new rows": lambda t, i, m, o: torch.empty_like(t).index_fill_(0, i, 1),
    "put into new rows": lambda t, i, m, o: torch.empty_like(t).index_put_((i,), o[i]),
    "set new masked": lambda t, i, m, o: torch.empty_like(t).masked_fill_(m, 1),
    "permute": lambda t, i, m, o: torch.empty_like(t).index_copy_(
        0, torch.arange(len(t), device=t.device).flip(0), o
    ),
    # Views
    "slice": lambda t, i, m, o: t[::2],
    "tail": lambda t, i, m, o: t[..., 1:],
    "transpose": lambda t, i, m, o: t.transpose(0, -1),
    "expand": lambda t, i, m, o: t.unsqueeze(0).expand(2, *t.shape),
    "first": lambda t, i, m, o: t[0],
    "windows": lambda t, i, m, o: t.unfold(0, 1, 1),
    "halves": lambda t, i, m, o: t.chunk(2),
    "flat": lambda t, i, m, o: t.view(-1),
    "diagonal": lambda t, i, m, o: t.diagonal(0, 0, -1),
    "nothing": lambda t, i, m, o: t[:0],
    "overlapping": lambda t, i, m, o: t.unfold(0, 2, 1),
    "bytes": lambda t, i, m, o: t.contiguous().view(torch.uint8),
    "real": lambda t, i, m, o: torch.view_as_real(t),
    "imaginary": lambda t, i, m, o: torch.complex(t.double(), o.double()).imag,
    "conjugate": lambda t, i, m, o: t.conj().resolve_conj(),
    "absolute of complex": lambda t, i, m, o: torch.complex(t.double(), o.double()).abs(),
    # Searching and counting
    "histogram": lambda t, i, m, o: t.histc(5, 0, 10),
    "search": lambda t, i, m, o: torch.searchsorted(o.flatten().sort().values, t),
    "search right": lambda t, i, m, o: torch.searchsorted(
        o.flatten().sort().values, t, right=True, out_int32=True
    ),
    "buckets": lambda t, i, m, o: torch.bucketize(t, o.flatten()[:3].sort().values),
    "least but one": lambda t, i, m, o: t.kthvalue(1).values,
    "most frequent": lambda t, i, m, o: t.mode().values,
    "median": lambda t, i, m, o: t.median(-1).values,
    "median all": lambda t, i, m, o: t.median(),
    "quantile": lambda t, i, m, o: t.double().quantile(0.25),
    "one hot": lambda t, i, m, o: torch.nn.functional.one_hot(t.long().abs(), 128),
    "runs": lambda t, i, m, o: t.unique_consecutive(return_inverse=True, return_counts=True),
    "different rows": lambda t, i, m, o: t.unique(dim=0, return_counts=True),
    "places": lambda t, i, m, o: m.nonzero(as_tuple=True),
    "count": lambda t, i, m, o: torch.count_nonzero(t, 0),
    "sort down": lambda t, i, m, o: t.sort(0, descending=True, stable=True),
    "least and most": lambda t, i, m, o: torch.aminmax(t),
    "most with place": lambda t, i, m, o: (t.float() * 128 + i[0]).max(0).values,
    "repeat each": lambda t, i, m, o: t.repeat_interleave(
        plain(t).flatten().long().abs()[: len(t)], 0
    ),
    "combinations": lambda t, i, m, o: torch.combinations(t.flatten()[:4]),
    "pairs": lambda t, i, m, o: torch.cartesian_prod(t.flatten()[:3], o.flatten()[:2]),
    "bags": lambda t, i, m, o: torch.nn.functional.embedding_bag(
        i, t.reshape(len(t), -1).float(), torch.zeros_like(i[:1]), mode="sum"
    ),
    "lookup": lambda t, i, m, o: torch.nn.functional.embedding(i, t.reshape(len(t), -1)),
    "segments": lambda t, i, m, o: torch.segment_reduce(
        t.float(), "max", lengths=torch.ones_like(t.flatten()[: len(t)], dtype=torch.int64)
    ),
    # Arithmetic
    "remainder": lambda t, i, m, o: t % 3,
    "floor": lambda t, i, m, o: t // 2,
    "signed remainder": lambda t, i, m, o: torch.fmod(t, 3),
    "shift": lambda t, i, m, o: t << 1,
    "shift back": lambda t, i, m, o: t >> 1,
    "exclusive or": lambda t, i, m, o: t ^ o,
    "and": lambda t, i, m, o: t & o,
    "invert": lambda t, i, m, o: ~t,
    "sign": lambda t, i, m, o: t.sgn(),
    "clamp": lambda t, i, m, o: t.clamp(o, o + 2),
    "greatest divisor": lambda t, i, m, o: torch.gcd(t, o),
    "logical": lambda t, i, m, o: torch.logical_xor(t, o),
    "finite": lambda t, i, m, o: torch.nan_to_num(t / 0.0, 1, 2, 3),
    "to bytes": lambda t, i, m, o: t.clamp(0, 100).to(torch.int8),
    "to half": lambda t, i, m, o: t.half(),
    "to complex": lambda t, i, m, o: t.to(torch.complex64),
    "running product": lambda t, i, m, o: t.clamp(-1, 1).cumprod(0),
    "running most": lambda t, i, m, o: t.cummax(0).values,
    "product of all": lambda t, i, m, o: t.clamp(-1, 1).prod(),
    "variance": lambda t, i, m, o: t.double().var(0, correction=0),
    "norm": lambda t, i, m, o: torch.linalg.vector_norm(t.double(), 1),
    "differences": lambda t, i, m, o: t.diff(dim=0),
    "outer": lambda t, i, m, o: torch.outer(t.flatten()[:3], o.flatten()[:3]),
    "lower": lambda t, i, m, o: t.reshape(len(t), -1).tril(),
    "rotated": lambda t, i, m, o: t.reshape(len(t), -1).rot90(),
    "padded": lambda t, i, m, o: torch.nn.functional.pad(t, (1, 2), value=3),
    "blocks": lambda t, i, m, o: torch.block_diag(t.flatten()[:2], o.flatten()[:2]),
    "gathered": lambda t, i, m, o: t.gather(0, torch.zeros_like(t, dtype=torch.int64)),
    "split": lambda t, i, m, o: torch.split_with_sizes_copy(t, [1, len(t) - 1]),
    # Other libraries
    "inverse": lambda t, i, m, o: torch.linalg.inv(square(t)),
    "determinant": lambda t, i, m, o: torch.linalg.det(square(t)),
    "solution": lambda t, i, m, o: torch.linalg.solve(square(t), square(o)),
    "factors": lambda t, i, m, o: torch.linalg.cholesky_ex(square(t), check_errors=False),
    "exponential": lambda t, i, m, o: torch.matrix_exp(square(t) / 8),
    "powers": lambda t, i, m, o: torch.linalg.matrix_power(square(t), 2),
    "eigenvalues": lambda t, i, m, o: torch.linalg.eigvalsh(square(t)),
    "spectrum": lambda t, i, m, o: torch.view_as_real(torch.fft.fft(t.double(), dim=0)),
    "there and back": lambda t, i, m, o: torch.fft.irfft(torch.fft.rfft(t.double()), 4),
    "sparse": lambda t, i, m, o: matrix(t).to_sparse().coalesce().to_dense(),
    "sparse places": lambda t, i, m, o: matrix(t).to_sparse_csr().col_indices(),
    "sparse product": lambda t, i, m, o: torch.sparse.mm(matrix(t).to_sparse(), matrix(o).t()),
}
CHANGES: dict[str, Step] = {
    "add": lambda t, i, m, o: t.add_(o),
    "negate": lambda t, i, m, o: t.neg_(),
    "fill": lambda t, i, m, o: t.fill_(2),
    "zero": lambda t, i, m, o: t.zero_(),
    "copy": lambda t, i, m, o: t.copy_(o),
    "set rows": lambda t, i, m, o: t.index_fill_(0, i, 1),
    "add rows": lambda t, i, m, o: t.index_add_(0, i, o[:1].expand(len(i), *o.shape[1:])),
    "set masked": lambda t, i, m, o: t.masked_fill_(m, 1),
    "copy masked": lambda t, i, m, o: t.masked_scatter_(m, o.clone()),
    "put": lambda t, i, m, o: t.put_(i[:1], o.flatten()[:1]),
    "first": lambda t, i, m, o: t[0].copy_(o[0]),
    "scatter": lambda t, i, m, o: t.scatter_(0, torch.zeros_like(o[:1], dtype=torch.int64), o),
    "lists add": lambda t, i, m, o: torch._foreach_add_([t], [o]),
    "lists zero": lambda t, i, m, o: torch._foreach_zero_([t]),
    "lists multiply": lambda t, i, m, o: torch._foreach_mul_([t], 2),
    "lists copy": lambda t, i, m, o: torch._foreach_copy_([t], [o]),
    "shift within": lambda t, i, m, o: t[1:].copy_(t[:-1].clone()),
    "add within": lambda t, i, m, o: t[:-1].add_(t[1:].clone()),
    "transposed": lambda t, i, m, o: t.transpose(0, -1).fill_(3),
    "every other": lambda t, i, m, o: t[::2].copy_(o[::2]),
    "cut": lambda t, i, m, o: t.clamp_(0, 4),
    "count rows": lambda t, i, m, o: t.index_put_((i[:1].repeat(3),), o[:1], accumulate=True),
    "largest rows": lambda t, i, m, o: t.index_reduce_(0, i[:1], o[:1], "amax"),
    "scatter largest": lambda t, i, m, o: t.scatter_reduce_(
        0, torch.zeros_like(o, dtype=torch.int64), o, "amax"
    ),
    "scatter sum": lambda t, i, m, o: t.scatter_add_(0, torch.zeros_like(o, dtype=torch.int64), o),
    "copy rows": lambda t, i, m, o: t.index_copy_(0, i, o[i]),
    "fill by a tensor": lambda t, i, m, o: t.fill_(o.flatten()[0]),
    "diagonal": lambda t, i, m, o: t.fill_diagonal_(5),
    "exchange": lambda t, i, m, o: t.copy_(t.flip(0)),
    "cut off": lambda t, i, m, o: t.tril_(),
    "convert": lambda t, i, m, o: t.copy_(o.float()),
}
OUT: dict[str, Step] = {
    "add": lambda t, i, m, o: torch.add(o, 1, out=t),
    "maximum": lambda t, i, m, o: torch.maximum(o, o, out=t),
    "cat": lambda t, i, m, o: torch.cat([o[:1], o[1:]], out=t),
    "rows": lambda t, i, m, o: torch.index_select(
        o, 0, torch.zeros_like(i[:1]).expand(len(o)), out=t
    ),
    "running sum": lambda t, i, m, o: torch.cumsum(o, 0, out=t),
    "sort": lambda t, i, m, o: torch.sort(
        o, stable=True, out=(t, torch.empty_like(o, dtype=torch.int64))
    )[:1],
    "where": lambda t, i, m, o: torch.where(m, o, o, out=t),
    "clamp": lambda t, i, m, o: torch.clamp(o, 1, 3, out=t),
    "first": lambda t, i, m, o: torch.sum(o, 0, out=t[0]),
    "gather": lambda t, i, m, o: torch.gather(o, 0, torch.zeros_like(o, dtype=torch.int64), out=t),
}
