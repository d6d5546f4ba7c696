"""Operators by part, with inputs that are made when their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Operator = Callable[[], object]
Cases = Iterator[tuple[str, Operator]]

NUMBERS = {"f32": torch.float32, "bf16": torch.bfloat16}
ROWS = ((64, 1024), (1024, 1024), (8192, 4096), (16384, 8192))
LONG_ROWS = ((2048, 50304), (8192, 50304), (4096, 128256))


def normal(*shape: int, number: torch.dtype = torch.float32) -> Tensor:
    """Random, so that no product is of zeros."""
    return torch.randn(*shape, device="cuda", dtype=number)


def with_gradient(function: Callable[..., Tensor], *leaves: Tensor) -> tuple[Operator, Operator]:
    """The forward pass with what it keeps, and the backward pass."""
    for leaf in leaves:
        if leaf.is_floating_point():
            leaf.requires_grad_()
    result = function(*leaves)
    ahead = torch.randn_like(result)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return (
        lambda: function(*leaves),
        lambda: torch.autograd.grad(result, wanted, ahead, retain_graph=True),
    )


def both(name: str, function: Callable[..., Tensor], *leaves: Tensor) -> Cases:
    """Both passes as cases."""
    forward, backward = with_gradient(function, *leaves)
    yield f"{name}, forward", forward
    yield f"{name}, backward", backward


def elementwise() -> Cases:
    """One pass over tensors, plain, broadcast, strided and of changed type."""
    for spelled, number in NUMBERS.items():
        for rows, columns in ROWS:
            x, y = normal(rows, columns, number=number), normal(rows, columns, number=number)
            row, column = normal(columns, number=number), normal(rows, 1, number=number)
            at = f"{spelled} {rows}x{columns}"
            yield f"fill {at}", x.zero_
            yield f"copy {at}", lambda x=x, y=y: y.copy_(x)
            yield f"add {at}", lambda x=x, y=y: x + y
            yield f"mul in place {at}", lambda x=x: x.mul_(1.0)
            yield f"add of a row {at}", lambda x=x, row=row: x + row
            yield f"mul by a column {at}", lambda x=x, column=column: x * column
            yield f"exp {at}", lambda x=x: x.exp()
            yield f"pow {at}", lambda x=x: x.pow(2)
            yield f"rsqrt {at}", lambda x=x: x.rsqrt()
            yield f"where {at}", lambda x=x, y=y: torch.where(x > 0, x, y)
            yield f"masked_fill {at}", lambda x=x: x.masked_fill(x > 0, 0)
            yield f"addcmul {at}", lambda x=x, y=y: torch.addcmul(x, x, y)
            yield (
                f"to other type {at}",
                lambda x=x, n=number: x.to(torch.bfloat16 if n == torch.float32 else torch.float32),
            )
            yield f"transposed copy {at}", lambda x=x: x.t().contiguous()
            yield f"half of columns {at}", lambda x=x: x[:, : x.shape[1] // 2].contiguous()
            yield f"every second column {at}", lambda x=x: x[:, ::2].contiguous()
            yield f"dropout {at}", lambda x=x: functional.dropout(x, 0.1)
            yield f"triu {at}", lambda x=x: x.triu()
            yield from both(f"gelu {at}", functional.gelu, x.clone())
            yield from both(f"silu {at}", functional.silu, x.clone())
            yield f"random normal {at}", x.normal_
            yield f"random uniform {at}", x.uniform_


def heads() -> Cases:
    """What attention does to its operands beside products."""
    for spelled, number in NUMBERS.items():
        for batch, length, count, width in ((1, 2048, 32, 128), (8, 1024, 12, 64)):
            at = f"{spelled} {batch}x{length}x{count}x{width}"
            x = normal(batch, length, count, width, number=number)
            cosine = normal(length, 1, width, number=number)
            yield f"heads first {at}", lambda x=x: x.transpose(1, 2).contiguous()

            def rotate(x: Tensor = x, cosine: Tensor = cosine) -> Tensor:
                left, right = x.chunk(2, -1)
                return x * cosine + torch.cat((-right, left), -1) * cosine

            yield f"rotary {at}", rotate
            yield f"repeat_interleave {at}", lambda x=x: x[:, :, :4].repeat_interleave(8, 2)
            qkv = normal(batch, length, 3 * count * width, number=number)
            yield f"split of three {at}", lambda q=qkv: [one.contiguous() for one in q.chunk(3, -1)]
            yield f"concatenate {at}", lambda x=x: torch.cat((x, x), 1)
            yield f"stack {at}", lambda x=x: torch.stack((x, x))
            wide = normal(batch, length, count * width)
            turns = torch.polar(normal(length, width // 2), normal(length, width // 2))

            def turn(wide: Tensor = wide, turns: Tensor = turns, width: int = width) -> Tensor:
                pairs = torch.view_as_complex(wide.unflatten(-1, (-1, width // 2, 2)))
                return torch.view_as_real(pairs * turns[:, None])

            yield f"complex rotary {at}", turn


def rows() -> Cases:
    """Norms, softmax, losses and sums."""
    for spelled, number in NUMBERS.items():
        for count, columns in (*ROWS, (4096, 768), (32768, 512), (4096, 256)):
            at = f"{spelled} {count}x{columns}"
            x = normal(count, columns, number=number)
            weight, bias = normal(columns, number=number), normal(columns, number=number)
            yield from both(
                f"layer_norm {at}",
                lambda x, w, b, c=columns: functional.layer_norm(x, (c,), w, b),
                *(x.clone(), weight.clone(), bias.clone()),
            )
            yield from both(
                f"rms_norm {at}",
                lambda x, w, c=columns: functional.rms_norm(x, (c,), w),
                *(x.clone(), weight.clone()),
            )
            yield from both(f"softmax {at}", lambda x: x.softmax(-1), x.clone())
            yield f"sum of all {at}", lambda x=x: x.sum()
            yield f"sum of rows {at}", lambda x=x: x.sum(1)
            yield f"sum of columns {at}", lambda x=x: x.sum(0)
            yield f"mean of squares {at}", lambda x=x: x.float().pow(2).mean(-1, keepdim=True)
            yield f"max of rows {at}", lambda x=x: x.max(1)
            yield f"argmax {at}", lambda x=x: x.argmax(-1)
            yield f"norm of all {at}", lambda x=x: torch.linalg.vector_norm(x)
            yield f"cumsum {at}", lambda x=x: x.cumsum(1)
            yield f"var {at}", lambda x=x: x.var(1)
            yield f"isnan any {at}", lambda x=x: x.isnan().any()
        for count, columns in LONG_ROWS:
            at = f"{spelled} {count}x{columns}"
            x = normal(count, columns, number=number)
            targets = torch.randint(columns, (count,), device="cuda")
            yield from both(
                f"cross_entropy {at}",
                lambda x, targets=targets: functional.cross_entropy(x, targets),
                x,
            )
            yield f"argmax {at}", lambda x=x: x.detach().argmax(-1)
            del x


def indices() -> Cases:
    """Lookups, scatters, sorts."""
    for spelled, number in NUMBERS.items():
        for table, width, count in (
            *((50304, 768, 8192), (32000, 4096, 4096), (1_000_000, 128, 65536)),
            *((128256, 4096, 16384), (4096, 4096, 8192)),
        ):
            at = f"{spelled} {table}x{width} of {count}"
            weight = normal(table, width, number=number)
            taken = torch.randint(table, (count,), device="cuda")
            source = normal(count, width, number=number)
            yield from both(
                f"embedding {at}", lambda w, taken=taken: functional.embedding(taken, w), weight
            )
            weight = weight.detach()
            yield f"index_select {at}", lambda w=weight, t=taken: w.index_select(0, t)
            yield f"index {at}", lambda w=weight, t=taken: w[t]
            yield f"index_add {at}", lambda w=weight, t=taken, s=source: w.index_add_(0, t, s)
            yield (
                f"index_put {at}",
                lambda w=weight, t=taken, s=source: w.index_put_((t,), s, accumulate=True),
            )
            wide = taken[:, None].expand(-1, width)
            yield f"gather {at}", lambda w=weight, wide=wide: w.gather(0, wide)
            yield f"scatter_add {at}", lambda w=weight, i=wide, s=source: w.scatter_add_(0, i, s)
            bags = torch.arange(0, count, 8, device="cuda")
            yield from both(
                f"embedding_bag {at}",
                lambda w, t=taken, b=bags: functional.embedding_bag(t, w, b, mode="sum"),
                weight,
            )
            del weight, source
    for count, columns in ((64, 1024), (1024, 8192), (16384, 64), (8, 1_000_000)):
        at = f"f32 {count}x{columns}"
        x = normal(count, columns)
        yield f"sort {at}", lambda x=x: x.sort(-1)
        yield f"argsort {at}", lambda x=x: x.argsort(-1)
        yield f"topk 8 {at}", lambda x=x: x.topk(8, -1)
    longs = torch.randint(1000, (1 << 20,), device="cuda")
    yield "bincount 2^20", lambda: longs.bincount(minlength=1000)
    yield "unique 2^20", longs.unique
    yield "nonzero 2^20", longs.nonzero
    yield "one_hot 2^16", lambda: functional.one_hot(longs[: 1 << 16], 1000)
    yield "randperm 2^20", lambda: torch.randperm(1 << 20, device="cuda")
    yield "arange 2^24", lambda: torch.arange(1 << 24, device="cuda")
    mask = normal(8192, 1024) > 0
    values = normal(8192, 1024)
    yield "masked_select 8192x1024", lambda: values.masked_select(mask)


def optimizers() -> Cases:
    """Steps over GPT-2's parameters, and over some large ones."""
    sizes: dict[str, list[tuple[int, ...]]] = {
        "gpt2": [(50304, 768), (1024, 768)]
        + 12 * [(768,), (768,), (2304, 768), (2304,), (768, 768), (768,), (768,), (768,)]
        + 12 * [(3072, 768), (3072,), (768, 3072), (768,)],
        "large": 8 * [(4096, 11008)] + 8 * [(4096, 4096)] + 8 * [(4096,)],
    }
    for name, shapes in sizes.items():
        parameters = [nn.Parameter(normal(*shape)) for shape in shapes]
        for one in parameters:
            one.grad = torch.randn_like(one)
        for kind, make in {
            "AdamW foreach": lambda p: torch.optim.AdamW(p, foreach=True),
            "AdamW fused": lambda p: torch.optim.AdamW(p, fused=True),
            "AdamW loop": lambda p: torch.optim.AdamW(p, foreach=False),
            "SGD momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
            "Adagrad": torch.optim.Adagrad,
        }.items():
            optimizer = make(parameters)
            yield f"{kind} {name}", optimizer.step
            del optimizer
        yield f"clip {name}", lambda p=parameters: nn.utils.clip_grad_norm_(p, 1.0)
        gradients = [one.grad for one in parameters]
        yield f"foreach zero {name}", lambda g=gradients: torch._foreach_zero_(g)
        yield f"foreach mul {name}", lambda g=gradients: torch._foreach_mul_(g, 1.0)
        yield f"foreach to bf16 {name}", lambda g=gradients: [one.bfloat16() for one in g]


def products() -> Cases:
    """cuBLAS: linear layers both ways, batches, f32 with and without TF32."""
    shapes = (
        *((128, 512, 512), (512, 1024, 4096), (2048, 768, 3072), (8192, 768, 50304)),
        *((4096, 4096, 4096), (4096, 4096, 11008), (16384, 1024, 4096), (8192, 8192, 8192)),
        *((1, 4096, 4096), (16, 4096, 11008), (65536, 128, 512), (8192, 256, 128), (300, 500, 700)),
    )
    for spelled, number in {**NUMBERS, "f16": torch.float16}.items():
        for tf32 in (False, True) if number == torch.float32 else (False,):
            at = f"{spelled}{' tf32' if tf32 else ''}"

            def allowed(act: Operator, tf32: bool = tf32) -> Operator:
                def run() -> object:
                    torch.backends.cuda.matmul.allow_tf32 = tf32
                    return act()

                return run

            for tokens, inputs, outputs in shapes:
                if at == "f32" and tokens * inputs * outputs > 2e11:
                    continue
                x = normal(tokens, inputs, number=number)
                weight = normal(outputs, inputs, number=number)
                bias = normal(outputs, number=number)
                forward, backward = with_gradient(functional.linear, x, weight, bias)
                yield f"linear {at} {tokens}x{inputs}x{outputs}, forward", allowed(forward)
                yield f"linear {at} {tokens}x{inputs}x{outputs}, backward", allowed(backward)
                del x, weight, bias
            for batch, m, n, k in (
                *((96, 1024, 1024, 64), (96, 1024, 64, 1024), (32, 512, 512, 512)),
                *((512, 27, 27, 128), (1024, 128, 128, 64), (8, 4096, 1024, 1024)),
            ):
                x, y = normal(batch, m, k, number=number), normal(batch, k, n, number=number)
                yield f"bmm {at} {batch}x{m}x{n}x{k}", allowed(lambda x=x, y=y: x @ y)


def attention() -> Cases:
    """Scaled dot product attention by its kernels."""
    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
    }
    shapes = (
        *((8, 12, 1024, 64), (1, 32, 2048, 128), (2, 32, 4096, 128), (1, 16, 8192, 128)),
        *(
            (64, 12, 128, 64),
            (32, 16, 256, 64),
            (256, 8, 50, 64),
            (4, 8, 512, 256),
            (1, 8, 1024, 64),
        ),
    )
    for spelled, backend in backends.items():
        for batch, count, length, width in shapes:
            for causal in (True, False):
                at = f"{spelled} {batch}x{count}x{length}x{width}{' causal' if causal else ''}"
                operands = [
                    normal(batch, length, count, width, number=torch.bfloat16).transpose(1, 2)
                    for _ in range(3)
                ]

                def attend(*operands: Tensor, b: SDPBackend = backend, c: bool = causal) -> Tensor:
                    with sdpa_kernel(b):
                        return functional.scaled_dot_product_attention(*operands, is_causal=c)

                try:
                    yield from both(at, attend, *operands)
                except RuntimeError as error:
                    print(at, str(error)[:100])
    query = normal(2, 32, 4096, 128, number=torch.bfloat16)
    shared = normal(2, 8, 4096, 128, number=torch.bfloat16)
    yield from both(
        "grouped 2x32/8x4096x128",
        lambda q, k: functional.scaled_dot_product_attention(
            q, k, k, is_causal=True, enable_gqa=True
        ),
        *(query, shared),
    )
    plain = normal(8, 12, 512, 64)
    yield from both(
        "efficient f32 8x12x512x64",
        lambda q: functional.scaled_dot_product_attention(q, q, q),
        plain,
    )
    mask = normal(1, 1, 512, 512)
    yield from both(
        "efficient f32 masked 8x12x512x64",
        lambda q: functional.scaled_dot_product_attention(q, q, q, attn_mask=mask),
        plain.detach().clone(),
    )


def images() -> Cases:
    """Convolutions, norms, pools and resizing."""
    shapes = (
        *((64, 3, 224, 64, 7, 2, 1), (64, 64, 56, 64, 3, 1, 1), (64, 256, 56, 64, 1, 1, 1)),
        *((64, 128, 28, 128, 3, 1, 1), (64, 256, 14, 1024, 1, 1, 1), (64, 512, 7, 512, 3, 1, 1)),
        *((64, 96, 56, 96, 7, 1, 96), (64, 128, 28, 128, 3, 1, 128), (8, 320, 64, 320, 3, 1, 1)),
        *((64, 1024, 14, 2048, 1, 2, 1), (64, 128, 28, 128, 3, 1, 32), (2, 64, 256, 64, 3, 1, 1)),
    )
    for spelled, number in NUMBERS.items():
        for layout in (torch.contiguous_format, torch.channels_last):
            last = " last" if layout == torch.channels_last else ""
            for batch, inputs, size, outputs, kernel, stride, groups in shapes:
                x = normal(batch, inputs, size, size, number=number).to(memory_format=layout)
                weight = normal(outputs, inputs // groups, kernel, kernel, number=number)
                at = (
                    f"{spelled}{last} {batch}x{inputs}x{size} {outputs}x{kernel}/{stride} g{groups}"
                )
                yield from both(
                    f"conv {at}",
                    lambda x, w, s=stride, p=kernel // 2, g=groups: functional.conv2d(
                        x, w, None, s, p, 1, g
                    ),
                    *(x, weight.to(memory_format=layout)),
                )
            for batch, channels, size in (
                (64, 64, 112),
                (64, 256, 56),
                (64, 2048, 7),
                (8, 320, 64),
            ):
                at = f"{spelled}{last} {batch}x{channels}x{size}"
                x = normal(batch, channels, size, size, number=number).to(memory_format=layout)
                norm = nn.BatchNorm2d(channels, device="cuda")
                yield from both(f"batch_norm {at}", norm, x.clone())
                yield from both(
                    f"group_norm {at}", lambda x: functional.group_norm(x, 32), x.clone()
                )
                yield from both(
                    f"max_pool {at}", lambda x: functional.max_pool2d(x, 3, 2, 1), x.clone()
                )
                yield from both(f"avg_pool {at}", lambda x: functional.avg_pool2d(x, 2), x.clone())
                yield from both(
                    f"adaptive {at}", lambda x: functional.adaptive_avg_pool2d(x, 1), x.clone()
                )
                yield from both(
                    f"nearest {at}", lambda x: functional.interpolate(x, scale_factor=2), x.clone()
                )
                yield from both(
                    f"bilinear {at}",
                    lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
                    x.clone(),
                )
                yield from both(f"relu {at}", functional.relu, x.clone())
    line = normal(16, 512, 3000, number=torch.bfloat16)
    filters = normal(512, 512, 3, number=torch.bfloat16)
    yield from both(
        "conv1d bf16 16x512x3000", lambda x, w: functional.conv1d(x, w, None, 1, 1), line, filters
    )
    volume, cubes = normal(2, 32, 64, 64, 64), normal(32, 32, 3, 3, 3)
    yield from both(
        "conv3d f32 2x32x64", lambda x, w: functional.conv3d(x, w, None, 1, 1), volume, cubes
    )


def recurrent() -> Cases:
    """cuDNN's recurrent networks."""
    for spelled, number in NUMBERS.items():
        for kind in (nn.LSTM, nn.GRU):
            for length, batch, width, layers in (
                (35, 20, 650, 2),
                (128, 64, 512, 1),
                (50, 256, 1024, 2),
            ):
                network = kind(width, width, layers, device="cuda", dtype=number)
                x = normal(length, batch, width, number=number)
                yield from both(
                    f"{kind.__name__} {spelled} {length}x{batch}x{width} l{layers}",
                    lambda x, network=network: network(x)[0],
                    x,
                )


def signals() -> Cases:
    """Transforms and solvers."""
    x = normal(64, 65536)
    yield "rfft 64x65536", lambda: torch.fft.rfft(x)
    image = normal(32, 512, 512)
    yield "fft2 32x512x512", lambda: torch.fft.fft2(image)
    square = normal(1024, 1024)
    positive = square @ square.t() + 1024 * torch.eye(1024, device="cuda")
    yield "cholesky 1024", lambda: torch.linalg.cholesky(positive)
    yield "solve 1024", lambda: torch.linalg.solve(positive, square)
    yield "qr 1024", lambda: torch.linalg.qr(square)
    yield "eigh 512", lambda: torch.linalg.eigh(positive[:512, :512])
    yield "svd 256", lambda: torch.linalg.svd(square[:256, :256])
    yield "inv 1024", lambda: torch.linalg.inv(positive)


PARTS: dict[str, Callable[[], Cases]] = {
    "elementwise": elementwise,
    "heads": heads,
    "rows": rows,
    "indices": indices,
    "optimizers": optimizers,
    "products": products,
    "attention": attention,
    "images": images,
    "recurrent": recurrent,
    "signals": signals,
}
