"""Operations of every class of kernels, one after the other, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as f
from torch.nn.attention import SDPBackend, sdpa_kernel

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
FLOAT8, FLOAT8_GRADIENT = torch.float8_e4m3fn, torch.float8_e5m2


def made(*sizes: int, kind: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda", dtype=kind)


def whole(*sizes: int, kind: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.zeros(*sizes, device="cuda", dtype=kind)


def with_gradient(function: Any, *tensors: torch.Tensor) -> None:
    result = function(*(tensor.requires_grad_() for tensor in tensors))
    result.backward(torch.ones_like(result))


def products() -> None:
    left, right, one = made(64, 128), made(256, 128).t(), torch.ones((), device="cuda")
    for kind in (FLOAT8, FLOAT8_GRADIENT):
        for result in (BF16, F32):
            torch._scaled_mm(left.to(kind), right.to(FLOAT8), one, one, out_dtype=result)
    torch._scaled_mm(
        *(left.to(FLOAT8), right.to(FLOAT8), one, one),
        bias=made(256),
        out_dtype=BF16,
    )
    torch._int_mm(whole(64, 128, kind=torch.int8), whole(256, 128, kind=torch.int8).t())
    ends = torch.arange(1, 5, device="cuda", dtype=torch.int32) * 64
    torch._grouped_mm(made(256, 128), made(4, 96, 128).transpose(1, 2), offs=ends)
    torch.mm(made(64, 128), made(128, 96), out_dtype=F32)
    torch.mm(made(64, 256)[:, :128], made(128, 192)[:, :96])
    torch.bmm(made(6, 64, 32), made(6, 32, 96))
    torch._addmm_activation(made(96), made(64, 128), made(128, 96), use_gelu=True)


def convolutions() -> None:
    for kind in (F16, F32):
        for form in (torch.contiguous_format, torch.channels_last):
            x = made(4, 16, 32, 32, kind=kind).contiguous(memory_format=form)
            w = made(32, 16, 3, 3, kind=kind).contiguous(memory_format=form)
            with_gradient(lambda x, w: f.conv2d(x, w, None, 2, 1), x, w)
    f.conv1d(made(4, 16, 64, kind=F16), made(32, 16, 3, kind=F16))
    f.conv3d(made(2, 4, 8, 8, 8, kind=F16), made(8, 4, 3, 3, 3, kind=F16))
    norm = nn.BatchNorm2d(32).cuda()
    for kind in (F16, F32):
        norm.train()
        with_gradient(norm, made(8, 32, 16, 16, kind=kind))
        norm.eval()
        norm(made(8, 32, 16, 16, kind=kind))
    f.max_pool2d(made(4, 8, 32, 32, kind=F32), 3, 2, 1)
    f.max_pool2d(made(4, 8, 32, 32, kind=F16).contiguous(memory_format=torch.channels_last), 3, 2)
    f.avg_pool2d(made(4, 8, 32, 32, kind=F32), 2)


def sequences() -> None:
    listen, speak = nn.LSTM(80, 256, 2, bidirectional=True).cuda(), nn.GRU(512, 64).cuda().half()
    sound = made(40, 8, 80, kind=F32).requires_grad_()
    heard, _ = listen(sound)
    spoken, _ = speak(heard.half())
    lengths = torch.full((8,), 40), torch.full((8,), 12)
    labels = torch.ones(96, dtype=torch.int32)
    f.ctc_loss(spoken.float().log_softmax(2), labels, *lengths).backward()


def pointwise() -> None:
    x, y = made(1000, 1000), made(1000, 1000)
    wide, other = x.float(), y.float()
    for operation in (torch.add, torch.mul, torch.div, torch.gt):
        operation(x, y)
    for operation in (torch.tanh, torch.sigmoid, torch.neg, torch.abs, f.gelu, f.silu, f.relu):
        operation(x)
    for operation in (torch.exp, torch.rsqrt, torch.sqrt, torch.cos, torch.sin, torch.log):
        operation(wide)
    aten = torch.ops.aten
    for operation in (aten.gelu_backward, aten.silu_backward, aten.tanh_backward):
        operation(x, y)
    aten.threshold_backward(x, y, 0)
    f.gelu(x, approximate="tanh")
    for _ in (x * 2.5, x + 1, 1 - x, x == 0, x > 0, wide.pow(2), wide.pow(3), x.clamp(0, 1)):
        pass
    torch.addcmul(wide, wide, other)
    torch.addcdiv(wide, wide, other)
    torch.lerp(wide, other, 0.3)
    for kind in (F16, BF16, F32, FLOAT8):
        wide.to(kind)
        x.to(kind)
    f.dropout(x, 0.1)
    x.clone().fill_(2)
    for one in (torch.empty_like(wide), torch.empty_like(x)):
        one.normal_()
        one.uniform_()


def rows() -> None:
    x = made(1000, 1000, kind=F32)
    for over in (0, 1, None):
        for operation in (torch.sum, torch.mean, torch.amax, torch.argmax, torch.var):
            operation(x, over) if over is not None or operation is not torch.amax else x.amax()
    torch.linalg.vector_norm(x)
    made(1000, 1000).sum(1)
    for columns in (512, 1000, 8192, 50304):
        f.softmax(made(64, columns), -1)
        with_gradient(lambda x: f.log_softmax(x, -1), made(64, columns, kind=F32))
    f.softmax(x.view(10, 100, 1000), 1)
    with_gradient(lambda x: f.cross_entropy(x, whole(256)), made(256, 1024, kind=F32))
    weight, bias = made(768), made(768)
    with_gradient(lambda *all: f.layer_norm(all[0], [768], *all[1:]), made(256, 768), weight, bias)
    with_gradient(lambda x, w: f.rms_norm(x, [768], w), made(256, 768), made(768))


def movements() -> None:
    x, y = made(1000, 1000), made(1000, 1000)
    torch.cat([x, y])
    torch.cat([x, y], 1)
    x.float().cumsum(1)
    x.float().view(-1).cumsum(0)
    made(64, 512, kind=F32).sort()
    made(512, 128).index_select(0, whole(64))
    for tokens in (512, 4096):
        table = nn.Embedding(512, 128).cuda()
        with_gradient(lambda weight, n=tokens: f.embedding(whole(n), weight), table.weight)


def optimizers() -> None:
    parameters = [nn.Parameter(made(count, kind=F32)) for count in (100_000, 70, 3000)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    for optimizer in (
        torch.optim.AdamW(parameters, fused=True),
        torch.optim.Adam(parameters, fused=True),
        torch.optim.AdamW(parameters, foreach=True),
        torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True),
    ):
        optimizer.step()
    nn.utils.clip_grad_norm_(parameters, 1.0)


def attention() -> None:
    for form in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel(form):
            with_gradient(
                lambda *all: f.scaled_dot_product_attention(*all, is_causal=True),
                *(made(2, 4, 256, 64) for _ in range(3)),
            )


for one in (
    *(products, convolutions, sequences, pointwise, rows, movements, optimizers, attention),
):
    one()
torch.cuda.synchronize()
