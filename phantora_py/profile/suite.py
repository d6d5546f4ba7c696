"""Shapes that are worth measuring before anything is run: products and attention of transformers,
products of recommendation models. Signatures are those that PyTorch's linear layers make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_WIDTHS = (768, 1024, 1536, 2048, 4096, 5120, 8192)
_TOKENS = (2048, 4096, 8192, 16384)
_LENGTHS = (1024, 2048, 4096, 8192)
_VOCABULARY = 50304
# Of embedding towers and interaction layers (assumed).
_RANKING_WIDTHS = (128, 256, 512, 1024)
_RANKING_BATCHES = (2048, 8192, 65536)


def suite() -> Iterator[Mapping[str, Any]]:
    """All signatures, each once."""
    seen: set[str] = set()
    for signature in _all():
        key = str(sorted(signature.items()))
        if key not in seen:
            seen.add(key)
            yield signature


def _all() -> Iterator[Mapping[str, Any]]:
    for width in _WIDTHS:
        for tokens in _TOKENS:
            for inputs, outputs in (
                *((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)),
                (width, _VOCABULARY),
            ):
                yield from linear(tokens, inputs, outputs, "bf16")
    for width in _RANKING_WIDTHS:
        for batch in _RANKING_BATCHES:
            for outputs in _RANKING_WIDTHS:
                yield from linear(batch, width, outputs, "f32")
    for length in _LENGTHS:
        for heads, head_dim in ((12, 64), (16, 128), (32, 128)):
            for batch in (1, 4, 8):
                yield from attention(batch, heads, length, head_dim)


def linear(rows: int, inputs: int, outputs: int, number: str) -> Iterator[Mapping[str, Any]]:
    """Forward with and without bias, gradient of the input, gradient of the weights."""
    for epilogue, library in (("none", "cublas"), ("bias", "cublasLt")):
        yield product(outputs, rows, inputs, "TN", number, epilogue, library)
    yield product(inputs, rows, outputs, "NN", number)
    yield product(inputs, outputs, rows, "NT", number)


def product(  # noqa: PLR0917 - as cuBLAS has them
    m: int,
    n: int,
    k: int,
    layout: str,
    number: str,
    epilogue: str = "none",
    library: str = "cublas",
) -> Mapping[str, Any]:
    """Columns first, leading dimensions as small as they can be."""
    transa, transb = layout[0], layout[1]
    return {
        **{"kind": "gemm", "library": library, "m": m, "n": n, "k": k, "batch": 1},
        **{"transa": transa, "transb": transb, "lda": k if transa == "T" else m},
        **{"ldb": n if transb == "T" else k, "ldc": m, **dict.fromkeys("abcd", number)},
        **{"compute": "f32", "epilogue": epilogue, "beta": False},
    }


def attention(batch: int, heads: int, length: int, head_dim: int) -> Iterator[Mapping[str, Any]]:
    """Causal, both directions, with the bytes that the calls say: forward Q, K, V, O and the rows'
    sums; backward these, their gradients, dQ once more in single precision and two sums.
    """
    rows = batch * heads * length
    for direction, operands, sums in (("forward", 4, 1), ("backward", 10, 2)):
        yield {
            **{"kind": "library", "library": "cudnn", "operation": f"attention_{direction}"},
            **{"type": "bf16", "batch": batch, "heads": heads, "kv_heads": heads},
            **{"seqlen_q": length, "seqlen_k": length, "head_dim": head_dim},
            **{"head_dim_v": head_dim, "causal": 1, "dropout": 0, "bias": 0},
            "bytes": rows * (2 * head_dim * operands + 4 * sums),
        }
