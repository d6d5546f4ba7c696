"""Floating-point operations of the products in a signature: matrix products, convolutions,
attention, recurrent networks. Nothing else is counted.

The sizes are counted as PyTorch's counter does (torch/utils/flop_counter.py): two for each
multiply-add, attention as if nothing were masked, and five products in its backward pass, of which
one makes the scores again. docs/decisions/throughput.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from sim_server.kernels import attention, rules
from sim_server.kernels.cudnn import convolution_type
from sim_server.kernels.gemm import REAL_TYPES, multiplied_type
from sim_server.kernels.grouped import group_shapes
from sim_server.kernels.recurrent import is_recurrent, recurrent_products
from sim_server.kernels.work import Launch
from sim_server.records.payloads import (
    Convolution,
    GroupedGemm,
    Kernel,
    ProductSignature,
    Recurrent,
)

MOST_FLOPS = 1 << 80
"""Of a launch (assumed)."""
_FORWARD_PRODUCTS, _BACKWARD_PRODUCTS = (1, 1), (3, 2)
"""As deep as Q, and as V."""


@dataclass(frozen=True)
class Products:
    """What a launch multiplies."""

    flops: int | None
    """None: these are products, and the signature hides their sizes."""
    type: str
    """Of the operands, as in the table `peak_per_s` of a GPU; empty if `flops` is None."""
    images: int = 0
    """That a first layer looks at; 0 for other layers."""

    def __post_init__(self) -> None:
        """Raises: ValueError for what no product has: signatures come from ranks."""
        if self.flops is not None and not (
            isinstance(self.flops, int) and 0 <= self.flops < MOST_FLOPS
        ):
            raise ValueError(f"{self.flops} FLOPs")
        if not isinstance(self.images, int) or not 0 <= self.images < MOST_FLOPS:
            raise ValueError(f"{self.images} images")


_MOST_COLOURS = 4
_HIDDEN = Products(None, "")


def products_of(signature: Mapping[str, Any]) -> Products | None:
    """Of one launch; None: it multiplies nothing."""
    match signature["kind"]:
        case "gemm":
            return _gemm(cast(ProductSignature, signature))
        case "library":
            return _library(signature) if signature.get("library") == "cudnn" else None
        case _:
            return (
                _kernel(Launch.from_signature(cast(Kernel, signature)))
                if "name" in signature
                else None
            )


def _gemm(signature: ProductSignature) -> Products:
    number = multiplied_type(signature)
    if signature.get("grouped"):
        groups = group_shapes(cast(GroupedGemm, signature))
        return Products(2 * sum(prod(shape) * count for shape, count in groups.items()), number)
    # A complex product is four real ones.
    real = 4 if number in REAL_TYPES else 1
    sizes = signature["m"], signature["n"], signature["k"], signature.get("batch", 1)
    return Products(2 * real * prod(max(1, size) for size in sizes), REAL_TYPES.get(number, number))


def _library(signature: Mapping[str, Any]) -> Products | None:
    operation, number = str(signature["operation"]), str(signature["type"])
    if operation.startswith("attention"):
        scores = prod(signature[key] for key in ("batch", "heads", "seqlen_q", "seqlen_k"))
        scores = round(scores * attention.share_of_longest(signature))
        depth = signature["head_dim"], signature["head_dim_v"]
        return _attention(scores, depth, operation == "attention_backward", number)
    if operation.startswith("convolution"):
        # All three do the same multiply-adds: each pixel of y with each weight of its filter.
        pixels = signature["y"][0] * prod(signature["y"][2:])
        flops, number = (
            2 * pixels * prod(signature["w"]),
            convolution_type(cast(Convolution, signature)),
        )
        return Products(flops, number, _images(operation, signature["x"], signature["w"]))
    if is_recurrent(operation):
        return Products(*recurrent_products(cast(Recurrent, signature)))
    if operation == "graph" and signature.get("flops"):
        return Products(signature["flops"], number)
    return None


def _images(operation: str, shape: list[int], weights: list[int]) -> int:
    """How many pictures or volumes of gray, colours or colours and opacity a layer makes features
    of. Filters make as many channels as they are given, of planes that may all be samples to them.
    """
    if operation != "convolution_forward" or len(shape) <= 3:
        return 0
    is_first = shape[1] <= _MOST_COLOURS < weights[0]
    return shape[0] if is_first else 0


def _kernel(launch: Launch) -> Products | None:
    rule = rules.find_rule(launch.name.family)
    if rule.estimate in (rules.hidden_product, rules.template):
        return _HIDDEN
    if rule.estimate not in (attention.flash_pass, attention.efficient_pass):
        return None
    sizes = attention.pass_sizes(launch)
    if sizes is None:
        return _HIDDEN
    return _attention(sizes.scores, sizes.depth, sizes.backward, sizes.type)


def _attention(scores: int, depth: tuple[int, int], backward: bool, number: str) -> Products:
    """`scores`: elements of all score matrices, masked ones too; `depth`: of a head's Q and V."""
    products = _BACKWARD_PRODUCTS if backward else _FORWARD_PRODUCTS
    deep = sum(count * size for count, size in zip(products, depth, strict=True))
    return Products(2 * scores * deep, number)
