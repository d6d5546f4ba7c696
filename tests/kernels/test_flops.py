"""FLOPs of a signature, each counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from sim_server.kernels.flops import Products, products_of

GEMM = {"kind": "gemm", "m": 3, "n": 5, "k": 7, "a": "bf16", "d": "bf16", "compute": "f32"}
CUDNN = {"kind": "library", "library": "cudnn", "type": "f16"}
ATTENTION = CUDNN | {
    **{"batch": 2, "heads": 3, "kv_heads": 1, "seqlen_q": 5, "seqlen_k": 7},
    **{"head_dim": 16, "head_dim_v": 8, "causal": 1, "dropout": 0, "bias": 0, "bytes": 1},
}
SCORES = 2 * 3 * 5 * 7
CONVOLUTION = CUDNN | {
    **{"compute": "f32", "groups": 2, "x": [4, 6, 9, 9], "w": [8, 3, 3, 3], "y": [4, 8, 5, 5]},
    **{"layout": "contiguous", "bytes": 1, "flops": 1},
}
LSTM = CUDNN | {
    **{"layers": 2, "directions": 2, "seqlen": 3, "batch": 5, "tokens": 15, "input": 4},
    **{"hidden": 6, "projection": 0, "persistent": 0, "tensor_cores": 1, "dropout": 0},
}
FLASH = (
    "_ZN13pytorch_flash16flash_{way}_kernelI23Flash_{way}_kernel_traitsILi64ELi128ELi128ELi4ELb0ELb0E"
    "N7cutlass10bfloat16_tE19Flash_kernel_traitsILi64ELi128ELi128ELi4ES3_EELb0ELb1ELb0ELb0ELb0E"
    "Lb0ELb0ELb0EEEvNS_16Flash_{way}_paramsE"
)
SIZES = {"batch": 2, "heads": 3, "kv_heads": 3, "seqlen_q": 5, "seqlen_k": 7, "head_dim": 64}


def kernel(name: str, **changes: Any) -> dict[str, Any]:
    return {"kind": "kernel", "name": name, "grid": [1, 3, 2], "block": [128, 1, 1], **changes}


@pytest.mark.parametrize(
    ("signature", "flops", "number"),
    [
        (GEMM, 2 * 3 * 5 * 7, "bf16"),
        (GEMM | {"batch": 4, "grouped": True}, 4 * 2 * 3 * 5 * 7, "bf16"),
        (GEMM | {"a": "f32"}, 2 * 3 * 5 * 7, "f32"),
        (GEMM | {"a": "f32", "compute": "tf32"}, 2 * 3 * 5 * 7, "tf32"),
        (GEMM | {"a": "c64"}, 4 * 2 * 3 * 5 * 7, "f32"),
        (ATTENTION | {"operation": "attention_forward"}, 2 * SCORES * (16 + 8), "f16"),
        (ATTENTION | {"operation": "attention_backward"}, 2 * SCORES * (3 * 16 + 2 * 8), "f16"),
        # 4 images of 5x5 pixels, 8 filters of 3 channels of 3x3.
        (CONVOLUTION | {"operation": "convolution_forward"}, 2 * 100 * 8 * 27, "f16"),
        (CONVOLUTION | {"operation": "convolution_wgrad"}, 2 * 100 * 8 * 27, "f16"),
        (
            CONVOLUTION | {"operation": "convolution_dgrad", "type": "f32", "compute": "tf32"},
            *(2 * 100 * 8 * 27, "tf32"),
        ),
        # Two directions: 4 gates of 6 from an input of 4 and a state of 6, then from 12 and 6.
        (LSTM | {"operation": "lstm_forward"}, 2 * 15 * 2 * 24 * (10 + 18), "f16"),
        (kernel(FLASH.format(way="fwd"), sizes=SIZES), 2 * SCORES * 2 * 64, "bf16"),
        (kernel(FLASH.format(way="bwd"), sizes=SIZES), 2 * SCORES * 5 * 64, "bf16"),
        (
            # The grid has 3 heads and 2 samples.
            kernel(
                "fmha_cutlassF_f16_aligned_64x64_rf_sm80",
                sizes={"head_dim": 16, "head_dim_value": 8, "seqlen_q": 5, "seqlen_k": 7},
            ),
            *(2 * SCORES * (16 + 8), "f16"),
        ),
    ],
)
def test_products_by_hand(signature: dict[str, Any], flops: int, number: str) -> None:
    """Two for each multiply-add; attention as if nothing were masked."""
    assert products_of(signature) == Products(flops, number)


@pytest.mark.parametrize(
    ("changes", "images"),
    [
        ({"x": [4, 3, 9, 9], "groups": 1}, 4),
        ({"x": [4, 3, 9, 9], "groups": 1, "operation": "convolution_wgrad"}, 0),
        ({"x": [4, 3, 9, 9], "w": [3, 1, 5, 5], "y": [4, 3, 5, 5], "groups": 3}, 0),
        ({"x": [12, 1, 9, 9], "w": [2, 1, 5, 5], "y": [12, 2, 5, 5], "groups": 1}, 0),
        ({}, 0),
        ({"x": [4, 3, 9], "w": [8, 3, 3], "y": [4, 8, 5], "groups": 1}, 0),
    ],
)
def test_a_first_layer_is_known_by_its_channels(changes: dict[str, Any], images: int) -> None:
    """Forward, of pictures or volumes; not of a wave in time, nor a filter such as a blur, of a
    group for each colour, or gradients of each plane.
    """
    products = products_of(CONVOLUTION | {"operation": "convolution_forward"} | changes)
    assert products is not None
    assert products.images == images


@pytest.mark.parametrize(
    "signature",
    [
        kernel(FLASH.format(way="fwd")),
        kernel("fmha_cutlassB_bf16_aligned_64x64_k64_sm80"),
        kernel("_ZN7cutlass13device_kernelIiEEvT_"),
        kernel("triton_tem_fused_mm_1"),
    ],
)
def test_products_of_unknown_sizes_are_known_as_such(signature: dict[str, Any]) -> None:
    """They are not taken for no products."""
    assert products_of(signature) == Products(None, "")


@pytest.mark.parametrize(
    "signature",
    [
        kernel("triton_poi_fused_add_0"),
        kernel("vectorized_elementwise_kernel"),
        CUDNN | {"operation": "batch_norm_backward", "bytes": 4},
        {"kind": "library", "library": "cusolver", "operation": "getrf", "type": "f32", "n": 4},
    ],
)
def test_other_work_is_not_counted(signature: dict[str, Any]) -> None:
    """Neither pointwise kernels nor solvers: PyTorch's counter has none of them."""
    assert products_of(signature) is None
