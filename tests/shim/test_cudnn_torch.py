"""What stock PyTorch hands to cuDNN arrives as one record a call, with its sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phantora_py.data import RunData
from sim_server.records import CELL_BYTES, RecordKind

pytestmark = pytest.mark.torch

LIMIT_S = 300.0

ATTENTION = """
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

def run(dtype, heads, kv_heads, length, head_dim, **more):
    def make(count):
        sizes = (2, count, length, head_dim)
        return torch.randn(sizes, device="cuda", dtype=dtype, requires_grad=True)
    result = attention(make(heads), make(kv_heads), make(kv_heads), enable_gqa=True, **more)
    result.backward(torch.ones_like(result))

run(torch.bfloat16, 8, 8, 128, 64)
run(torch.float16, 8, 2, 256, 128, is_causal=True)
run(torch.bfloat16, 8, 8, 128, 64, is_causal=True, dropout_p=0.25)
mask = torch.ones(128, 128, dtype=torch.bool, device="cuda")
run(torch.bfloat16, 8, 8, 128, 64, attn_mask=mask)
torch.cuda.synchronize()
"""

UNEQUAL = """
import torch
from torch.nn.attention.varlen import varlen_attn

lengths = [512, 256, 128, 128]
ends = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
q = torch.empty(sum(lengths), 8, 64, device="cuda", dtype=torch.bfloat16)
varlen_attn(q, q, q, ends, ends, 512, 512)
torch.cuda.synchronize()
"""

CONVOLUTION = """
import torch

block = torch.nn.Sequential(
    torch.nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), torch.nn.BatchNorm2d(32)
).cuda()
inputs = torch.randn(4, 16, 32, 32, device="cuda", requires_grad=True)
for allowed in (True, False):
    torch.backends.cudnn.allow_tf32 = allowed
    block(inputs).sum().backward()
torch.cuda.synchronize()
"""

RECURRENT = """
import torch
from torch import nn

def run(network, inputs):
    output = network.cuda()(inputs)[0]
    packed = isinstance(output, nn.utils.rnn.PackedSequence)
    (output.data if packed else output).sum().backward()

inputs = torch.randn(20, 8, 128, device="cuda", requires_grad=True)
run(nn.LSTM(128, 256), inputs)
run(nn.GRU(128, 256, 2, bidirectional=True, batch_first=True), inputs)
run(nn.RNN(128, 64, bias=False), inputs)
run(nn.LSTM(128, 256, 2, proj_size=32, bias=False), inputs)
run(nn.LSTM(128, 256).bfloat16(), inputs.bfloat16())
run(nn.LSTM(128, 256).half(), inputs.half())
pack = nn.utils.rnn.pack_padded_sequence
run(nn.GRU(128, 256, 2, dropout=0.1), pack(inputs[:, :3], torch.tensor([20, 11, 2])))
torch.backends.cudnn.allow_tf32 = False
run(nn.LSTM(128, 256), inputs)
torch.cuda.synchronize()
"""

CTC_LOSS = """
import torch

scores = torch.randn(50, 4, 32, device="cuda", requires_grad=True)
targets = torch.randint(1, 32, (40,), dtype=torch.int32)
lengths = torch.full((4,), 50)
label_lengths = torch.tensor([10, 12, 8, 10])
for device, kind in (("cpu", torch.int64), ("cuda", torch.int32)):
    sizes = [one.to(device, kind) for one in (lengths, label_lengths)]
    loss = torch.nn.functional.ctc_loss(scores.log_softmax(2), targets.to(device), *sizes)
    loss.backward()
torch.cuda.synchronize()
"""

SAMPLES = """
import torch

images = torch.randn(2, 3, 64, 32, device="cuda", requires_grad=True)
grid = torch.rand(2, 16, 24, 2, device="cuda", requires_grad=True)
for align in (True, False):
    torch.nn.functional.grid_sample(images, grid, align_corners=align).sum().backward()
torch.cuda.synchronize()
"""


def cudnn_calls(program: str, directory: Path) -> list[dict[str, Any]]:
    """Signatures of cuDNN's records of the program on one H100, in order."""
    (directory / "program.py").write_text(program)
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr"]
    words += ["--cluster", "h100", "--ranks", "1", "--", sys.executable, "program.py"]
    done = subprocess.run(
        words, cwd=directory, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    cells = b"".join(RunData(directory / "run.phr").records(0))
    announced: dict[int, dict[str, Any]] = {}
    calls = []
    at = 0
    while at < len(cells):
        kind = cells[at]
        ident = int(np.frombuffer(cells, "<u4", 1, at + 16)[0])
        payload_bytes = int(np.frombuffer(cells, "<u8", 1, at + 24)[0]) if kind < 16 else 0
        at += CELL_BYTES
        if kind == RecordKind.SIGNATURE:
            announced[ident] = json.loads(cells[at : at + payload_bytes])
        elif kind == RecordKind.KERNEL and announced[ident].get("library") == "cudnn":
            calls.append(announced[ident])
        at += -(-payload_bytes // CELL_BYTES) * CELL_BYTES
    return calls


def test_default_attention_is_fused(tmp_path: Path) -> None:
    """On a Hopper GPU scaled dot product attention runs cuDNN's, forward and backward."""
    calls = cudnn_calls(ATTENTION, tmp_path)
    keys = ("type", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v")
    flags = ("causal", "dropout", "bias")
    assert [call["operation"] for call in calls] == ["attention_forward", "attention_backward"] * 4
    for forward, backward in zip(calls[::2], calls[1::2], strict=True):
        assert all(forward[key] == backward[key] for key in keys + flags)
    assert [tuple(call[key] for key in keys) for call in calls[::2]] == [
        ("bf16", 8, 8, 128, 128, 64, 64),
        ("f16", 8, 2, 256, 256, 128, 128),
        ("bf16", 8, 8, 128, 128, 64, 64),
        ("bf16", 8, 8, 128, 128, 64, 64),
    ]
    assert [tuple(call[flag] for flag in flags) for call in calls[::2]] == [
        (0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1),
    ]  # fmt: skip


def test_attention_of_sequences_of_unequal_length(tmp_path: Path) -> None:
    """Descriptors have the longest of them alone; the memory of Q tells how long all are."""
    pytest.importorskip("torch.nn.attention.varlen", reason="PyTorch has varlen_attn since 2.10")
    (call,) = cudnn_calls(UNEQUAL, tmp_path)
    assert (call["batch"], call["seqlen_q"], call["total_q"]) == (4, 512, 1024)


def test_convolution_and_batch_norm(tmp_path: Path) -> None:
    """Convolutions use TF32 where PyTorch allows it; batch normalisation is cuDNN's too."""
    calls = cudnn_calls(CONVOLUTION, tmp_path)
    step = ["convolution_forward", "batch_norm_forward_training", "batch_norm_backward"]
    assert [call["operation"] for call in calls] == 2 * [
        *step, "convolution_dgrad", "convolution_wgrad",
    ]  # fmt: skip
    convolutions = [call for call in calls if "compute" in call]
    assert [call["compute"] for call in convolutions] == ["tf32"] * 3 + ["f32"] * 3
    for call in convolutions:
        assert (call["x"], call["w"], call["y"]) == (
            [4, 16, 32, 32], [32, 16, 3, 3], [4, 32, 16, 16],
        )  # fmt: skip
        assert (call["stride"], call["padding"], call["groups"]) == ([2, 2], [1, 1], 1)


def test_recurrent_networks(tmp_path: Path) -> None:
    """One call a pass; 16 bits take a persistent kernel, sequences packed together have tokens."""
    calls = cudnn_calls(RECURRENT, tmp_path)
    assert [call["operation"] for call in calls if "bytes" in call] == ["dropout_states"]
    passes = [call for call in calls if "bytes" not in call]
    cells = ["lstm", "gru", "rnn_tanh", "lstm", "lstm", "lstm", "gru", "lstm"]
    assert [call["operation"] for call in passes] == [
        f"{cell}_{direction}"
        for cell in cells
        for direction in ("forward", "backward_data", "backward_weights")
    ]
    keys = ("layers", "directions", "seqlen", "batch", "tokens", "hidden", "projection")
    flags = ("persistent", "tensor_cores", "dropout")
    for at in range(0, len(passes), 3):
        for key in ("type", "input", *keys, *flags):
            assert passes[at][key] == passes[at + 1][key] == passes[at + 2][key]
    assert [tuple(call[key] for key in ("type", *keys)) for call in passes[::3]] == [
        ("f32", 1, 1, 20, 8, 160, 256, 0), ("f32", 2, 2, 8, 20, 160, 256, 0),
        ("f32", 1, 1, 20, 8, 160, 64, 0), ("f32", 2, 1, 20, 8, 160, 256, 32),
        ("bf16", 1, 1, 20, 8, 160, 256, 0), ("f16", 1, 1, 20, 8, 160, 256, 0),
        ("f32", 2, 1, 20, 3, 33, 256, 0), ("f32", 1, 1, 20, 8, 160, 256, 0),
    ]  # fmt: skip
    assert [tuple(call[flag] for flag in flags) for call in passes[::3]] == [
        (0, 1, 0), (0, 1, 0), (1, 1, 0), (0, 1, 0), (0, 1, 0), (1, 1, 0), (0, 1, 1), (0, 0, 0),
    ]  # fmt: skip


def test_ctc_loss(tmp_path: Path) -> None:
    """The loss and its gradient are one call; of labels on the GPU their most is known."""
    calls = cudnn_calls(CTC_LOSS, tmp_path)
    assert [call.pop("labels") for call in calls] == [12, 255]
    assert calls == [{
        "kind": "library", "library": "cudnn", "operation": "ctc_loss", "type": "f32",
        "seqlen": 50, "batch": 4, "channels": 32, "bytes": 2 * 4 * 50 * 4 * 32,
    }] * 2  # fmt: skip


def test_samples_of_images(tmp_path: Path) -> None:
    """`grid_sample` with aligned corners is cuDNN's, forward and backward; without, PyTorch's."""
    sizes = {"type": "f32", "batch": 2, "channels": 3, "pixels": 64 * 32, "points": 16 * 24}
    images, samples, grid = (4 * 2 * one for one in (3 * 64 * 32, 3 * 16 * 24, 2 * 16 * 24))
    call = {"kind": "library", "library": "cudnn", **sizes}
    assert cudnn_calls(SAMPLES, tmp_path) == [
        {**call, "operation": "sampling_forward", "bytes": images + samples + grid},
        {**call, "operation": "sampling_backward", "bytes": 2 * images + samples + 2 * grid},
    ]
