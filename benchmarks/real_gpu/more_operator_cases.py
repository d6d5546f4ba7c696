"""Operators that were measured after the models had been fixed: what `operator_cases` lacks.

Orders of dimensions, lookups in other dimensions, other reductions and functions, padding, losses,
layouts of products, convolutions of other shapes, decoding, solvers of batches.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from operator_cases import NUMBERS, Cases, Operator, both, normal
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

LONGS = torch.int64


def orders() -> Cases:
    """Copies that put dimensions into another order, and what moves elements about."""
    for spelled, number in NUMBERS.items():
        for shape, order in (
            *(((4096, 4096), (1, 0)), ((8192, 1000), (1, 0)), ((300, 70_000), (1, 0))),
            *(((64, 256, 56, 56), (0, 2, 3, 1)), ((64, 56, 56, 256), (0, 3, 1, 2))),
            *(((32, 3, 224, 224), (0, 2, 3, 1)), ((64, 197, 768), (1, 0, 2))),
            *(((16, 12, 512, 64), (0, 2, 1, 3)), ((16, 512, 12, 64), (0, 2, 3, 1))),
            *(((128, 64, 64, 32), (3, 1, 2, 0)), ((256, 7, 7, 512), (1, 2, 0, 3))),
            *(((64, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)), ((16, 1024, 1024), (0, 2, 1))),
        ):
            x = normal(*shape, number=number).permute(order)
            name = f"order {''.join(map(str, order))} {spelled} {'x'.join(map(str, shape))}"
            yield name, lambda x=x: x.contiguous()
        for rows, columns in ((1024, 1024), (8192, 4096)):
            x = normal(rows, columns, number=number)
            at = f"{spelled} {rows}x{columns}"
            yield f"flip of columns {at}", lambda x=x: x.flip(1)
            yield f"flip of rows {at}", lambda x=x: x.flip(0)
            yield f"roll {at}", lambda x=x: x.roll(3, 1)
            yield f"add of transposed {at}", lambda x=x: x + x.reshape(x.shape[::-1]).t()
            yield f"expand {at}", lambda x=x: x[None, :256].expand(8, -1, -1).contiguous()
            yield f"repeat {at}", lambda x=x: x.repeat(1, 2)
            yield f"tril {at}", lambda x=x: x.tril()
            yield f"every second row {at}", lambda x=x: x[::2].contiguous()
            yield f"cat of columns {at}", lambda x=x: torch.cat((x, x, x[:, :64]), 1)
            yield f"cat of 64 {at}", lambda x=x: torch.cat(x.chunk(64), 1)
            yield f"write columns {at}", lambda x=x: x[:, 128:640].copy_(x[:, :512])
            yield f"diagonal {at}", lambda x=x: x.diagonal().add_(1)
        for batch, channels, size in ((32, 64, 112), (8, 256, 56)):
            at = f"{spelled} {batch}x{channels}x{size}"
            x = normal(batch, channels, size, size, number=number)
            yield from both(f"pad {at}", lambda x: functional.pad(x, (1, 1, 1, 1)), x.clone())
            yield from both(
                f"pad reflect {at}", lambda x: functional.pad(x, (2,) * 4, "reflect"), x.clone()
            )
            yield from both(
                f"pad replicate {at}", lambda x: functional.pad(x, (2,) * 4, "replicate"), x.clone()
            )
            yield from both(
                f"pixel_shuffle {at}", lambda x: functional.pixel_shuffle(x, 2), x.clone()
            )
            yield from both(f"unfold {at}", lambda x: functional.unfold(x, 3), x[:4].clone())
            yield from both(f"max_pool 2 {at}", lambda x: functional.max_pool2d(x, 2), x.clone())
            yield from both(
                f"bicubic {at}",
                lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"),
                x[:8].clone(),
            )
            yield from both(
                f"bilinear half {at}",
                lambda x: functional.interpolate(x, scale_factor=0.5, mode="bilinear"),
                x.clone(),
            )
            yield from both(
                f"adaptive 7 {at}", lambda x: functional.adaptive_avg_pool2d(x, 7), x.clone()
            )
            grid = torch.rand(batch, size, size, 2, device="cuda", dtype=number) * 2 - 1
            for aligned in (False, True):
                yield from both(
                    f"grid_sample{' aligned' if aligned else ''} {at}",
                    lambda x, g, a=aligned: functional.grid_sample(x, g, align_corners=a),
                    *(x.clone(), grid.clone()),
                )


def functions() -> Cases:
    """Element by element, from cheap to costly, some of which PyTorch has compiled when asked."""
    for rows, columns in ((1024, 1024), (8192, 4096)):
        at = f"f32 {rows}x{columns}"
        x, y = torch.rand(rows, columns, device="cuda"), torch.rand(rows, columns, device="cuda")
        for name in (
            *("sin", "tan", "tanh", "sigmoid", "log", "log1p", "expm1", "erf", "erfinv", "lgamma"),
            *("digamma", "i0", "sqrt", "reciprocal", "floor", "round", "sign", "abs", "neg"),
            *("atan", "asinh", "logit", "isfinite", "bool", "half", "double", "long", "signbit"),
        ):
            yield f"{name} {at}", lambda x=x, name=name: getattr(x, name)()
        for name in (
            *("atan2", "fmod", "remainder", "pow", "hypot", "logaddexp", "maximum", "div", "sub"),
            *("lt", "eq", "xlogy", "copysign", "nextafter"),
        ):
            function = getattr(torch, name)
            yield f"{name} of two {at}", lambda x=x, y=y, f=function: f(x, y)
        for name in ("relu", "leaky_relu", "elu", "softplus", "hardswish", "mish", "selu", "tanh"):
            function = getattr(functional, name)
            yield from both(f"{name} {at}", function, x.clone())
        yield f"polygamma {at}", lambda x=x: torch.polygamma(1, x)
        yield f"bessel_j0 {at}", lambda x=x: torch.special.bessel_j0(x)
        yield f"zeta {at}", lambda x=x, y=y: torch.special.zeta(x + 1.5, y)
        yield f"clamp {at}", lambda x=x: x.clamp(0.2, 0.8)
        yield f"lerp {at}", lambda x=x, y=y: x.lerp(y, 0.3)
        yield f"addcdiv {at}", lambda x=x, y=y: torch.addcdiv(x, y, y + 1)
        whole = (x * 1000).long()
        for name in ("add", "bitwise_and", "gcd", "floor_divide", "remainder"):
            function = getattr(torch, name)
            yield f"{name} of longs {at}", lambda a=whole, f=function: f(a, a)
        z = torch.complex(x, y)
        for name in ("exp", "abs", "angle", "conj_physical", "sqrt"):
            yield f"complex {name} {at}", lambda z=z, name=name: getattr(z, name)()
        yield f"complex mul {at}", lambda z=z: z * z
        double = x.double()
        yield f"float64 add {at}", lambda x=double: x + x
        yield f"float64 exp {at}", lambda x=double: x.exp()
        yield f"bernoulli {at}", lambda x=x: x.bernoulli()
        yield f"exponential {at}", lambda x=x: x.exponential_()
        yield f"randint {at}", lambda s=x.shape: torch.randint(1000, s, device="cuda")


def reductions() -> Cases:
    """Along other dimensions, of other kinds."""
    for spelled, number in NUMBERS.items():
        for shape in ((64, 1024, 768), (256, 64, 4096), (16, 256, 56, 56)):
            at = f"{spelled} {'x'.join(map(str, shape))}"
            x = normal(*shape, number=number)
            yield f"sum of middle {at}", lambda x=x: x.sum(1)
            yield f"mean of first two {at}", lambda x=x: x.mean((0, 1))
            yield f"mean of last two {at}", lambda x=x: x.mean((-2, -1))
            yield f"var_mean {at}", lambda x=x: torch.var_mean(x, -1)
            yield f"std of middle {at}", lambda x=x: x.std(1)
            yield f"amax of last {at}", lambda x=x: x.amax(-1)
            yield f"max of middle {at}", lambda x=x: x.max(1)
            yield f"argmin of first {at}", lambda x=x: x.argmin(0)
            yield f"logsumexp {at}", lambda x=x: x.logsumexp(-1)
            yield f"norm of last {at}", lambda x=x: x.norm(dim=-1)
            yield f"any {at}", lambda x=x: (x > 0).any(-1)
            yield f"prod {at}", lambda x=x: x.prod(-1)
            yield f"cumsum of middle {at}", lambda x=x: x.cumsum(1)
            yield f"softmax of middle {at}", lambda x=x: x.softmax(1)
            yield from both(f"log_softmax {at}", lambda x: x.log_softmax(-1), x.clone())
            yield from both(f"normalize {at}", lambda x: functional.normalize(x, dim=-1), x.clone())
            yield f"sum to f32 {at}", lambda x=x: x.sum(dtype=torch.float32)
            yield f"count_nonzero {at}", lambda x=x: x.count_nonzero()
            if len(shape) == 4:
                norm = nn.InstanceNorm2d(shape[1], affine=True, device="cuda", dtype=number)
                yield from both(f"instance_norm {at}", norm, x.clone())
        for rows, columns in ((4096, 1000), (65536, 16), (512, 50304)):
            at = f"{spelled} {rows}x{columns}"
            x = normal(rows, columns, number=number)
            y = normal(rows, columns, number=number)
            targets = torch.randint(columns, (rows,), device="cuda")
            yield from both(
                f"cross_entropy smoothed {at}",
                lambda x, t=targets: functional.cross_entropy(x, t, label_smoothing=0.1),
                x.clone(),
            )
            yield from both(f"mse {at}", functional.mse_loss, x.clone(), y)
            yield from both(f"smooth_l1 {at}", functional.smooth_l1_loss, x.clone(), y)
            yield from both(
                f"bce_with_logits {at}",
                functional.binary_cross_entropy_with_logits,
                *(x.clone(), y.detach().sigmoid()),
            )
            yield from both(
                f"kl_div {at}",
                lambda x, y=y: functional.kl_div(x.log_softmax(-1), y.softmax(-1).detach()),
                x.clone(),
            )
            yield from both(f"cosine {at}", functional.cosine_similarity, x.clone(), y)


def lookups() -> Cases:
    """By indices in any dimension."""
    for spelled, number in NUMBERS.items():
        for rows, columns in ((8192, 1024), (1024, 50304)):
            at = f"{spelled} {rows}x{columns}"
            x = normal(rows, columns, number=number)
            at_random = torch.randint(columns, (rows, 128), device="cuda")
            across = torch.randint(columns, (256,), device="cuda")
            down = torch.randint(rows, (512,), device="cuda")
            some, rows_of = normal(rows, 128, number=number), normal(512, columns, number=number)
            yield f"gather of columns {at}", lambda x=x, i=at_random: x.gather(1, i)
            yield f"scatter of columns {at}", lambda x=x, i=at_random, s=some: x.scatter_(1, i, s)
            yield (
                f"scatter_add of columns {at}",
                lambda x=x, i=at_random, s=some: x.scatter_add_(1, i, s),
            )
            yield (
                f"scatter_reduce {at}",
                lambda x=x, i=at_random, s=some: x.scatter_reduce_(1, i, s, "amax"),
            )
            yield f"index_select of columns {at}", lambda x=x, i=across: x.index_select(1, i)
            yield f"index of columns {at}", lambda x=x, i=across: x[:, i]
            yield f"index of both {at}", lambda x=x, d=down, a=across: x[d[:256], a]
            yield f"index_fill {at}", lambda x=x, d=down: x.index_fill_(0, d, 0.0)
            yield f"index_copy {at}", lambda x=x, d=down, s=rows_of: x.index_copy_(0, d, s)
            yield f"index_put {at}", lambda x=x, d=down, s=rows_of: x.index_put_((d,), s)
            yield f"index_add of columns {at}", lambda x=x, i=across: x.index_add_(1, i, x[:, :256])
            yield f"take {at}", lambda x=x, i=at_random: x.take(i)
            yield f"masked_scatter {at}", lambda x=x: x.masked_scatter(x > 0, x)
            yield f"where of mask {at}", lambda x=x: x[x[:, 0] > 0]


def searches() -> Cases:
    """Sorts, ranks, searches and counts; tables of which most lookups are of few rows."""
    for rows, columns in ((4096, 512), (64, 8192), (64, 100_000), (1, 1 << 22)):
        at = f"f32 {rows}x{columns}"
        x = normal(rows, columns)
        yield f"kthvalue {at}", lambda x=x: x.kthvalue(x.shape[1] // 2)
        yield f"median {at}", lambda x=x: x.median(1)
        yield f"topk 50 {at}", lambda x=x: x.topk(50, -1)
        yield f"topk 1000 {at}", lambda x=x: x.topk(min(x.shape[1], 1000), -1)
        yield f"sort descending {at}", lambda x=x: x.sort(-1, descending=True)
        yield f"cummax {at}", lambda x=x: x.cummax(1)
        yield f"logcumsumexp {at}", lambda x=x: x.logcumsumexp(1)
        if columns <= 100_000:
            yield f"quantile {at}", lambda x=x: x.quantile(0.9, 1)
            yield f"multinomial {at}", lambda x=x: x.softmax(1).multinomial(4)
            yield f"mode {at}", lambda x=x: x.long().mode(1)
    longs = torch.randint(100_000, (1 << 20,), device="cuda")
    reals, few = longs.float(), longs % 4
    edges = torch.arange(0, 100_000, 100, device="cuda")
    yield "histc 2^20", lambda: reals.histc(256)
    yield "bincount of many 2^20", lambda: longs.bincount(minlength=100_000)
    yield "bucketize 2^20", lambda: torch.bucketize(longs, edges)
    yield "unique with counts 2^20", lambda: longs.unique(return_counts=True, return_inverse=True)
    yield "unique_consecutive 2^20", longs.unique_consecutive
    yield "isin 2^20", lambda: torch.isin(longs, edges)
    yield "repeat_interleave 2^20", lambda: longs.repeat_interleave(few)
    yield "argsort stable 2^20", lambda: longs.argsort(stable=True)
    yield "cumsum of longs 2^20", lambda: longs.cumsum(0)
    for table, width, count, least in ((100_000, 128, 65536, 0), (1_000_000, 64, 1 << 18, 0)):
        at = f"f32 {table}x{width} of {count}"
        weight = normal(table, width)
        # As words and users are: most lookups are of few rows.
        ranks = torch.rand(count, device="cuda").pow(4).mul(table).long().clamp(least, table - 1)
        bags = torch.arange(0, count, 16, device="cuda")
        each = torch.rand(count, device="cuda")
        yield from both(
            f"embedding of few {at}", lambda w, r=ranks: functional.embedding(r, w), weight
        )
        for mode in ("mean", "max"):
            yield from both(
                f"embedding_bag {mode} {at}",
                lambda w, r=ranks, b=bags, m=mode: functional.embedding_bag(r, w, b, mode=m),
                weight,
            )
        yield from both(
            f"embedding_bag weighted {at}",
            lambda w, e, r=ranks, b=bags: functional.embedding_bag(
                r, w, b, mode="sum", per_sample_weights=e
            ),
            *(weight, each),
        )
        yield (
            f"embedding_bag sparse gradient {at}",
            lambda w=weight, r=ranks, b=bags: torch.autograd.grad(
                functional.embedding_bag(r, w, b, mode="sum", sparse=True).sum(), w
            ),
        )


def layouts() -> Cases:
    """Products of operands that lie in other ways, and of odd sizes."""
    for spelled, number in {**NUMBERS, "f16": torch.float16}.items():
        for m, n, k in (
            *((4096, 4096, 1024), (2048, 1001, 768), (1000, 333, 500), (8192, 50257, 768)),
            *((4097, 1025, 513), (128, 8192, 8192), (8, 4096, 4096)),
        ):
            if spelled == "f32" and m * n * k > 1e11:
                continue
            at = f"{spelled} {m}x{n}x{k}"
            left, right = normal(m, k, number=number), normal(k, n, number=number)
            column = right[:, 0].contiguous()
            turned_left, turned_right = left.t().contiguous().t(), right.t().contiguous().t()
            yield f"mm NN {at}", lambda a=left, b=right: a @ b
            yield f"mm NT {at}", lambda a=left, b=turned_right: a @ b
            yield f"mm TN {at}", lambda a=turned_left, b=right: a @ b
            yield f"mm TT {at}", lambda a=turned_left, b=turned_right: a @ b
            yield f"mv {at}", lambda a=left, b=column: a @ b
            yield f"addmm {at}", lambda a=left, b=right: torch.addmm(a.new_ones(b.shape[1]), a, b)
        for batch, m, n, k in ((64, 197, 197, 64), (384, 49, 49, 32), (16, 1000, 1000, 100)):
            at = f"{spelled} {batch}x{m}x{n}x{k}"
            left = normal(batch, m, k, number=number)
            right = normal(batch, n, k, number=number)
            yield f"bmm of transposed {at}", lambda a=left, b=right: a @ b.transpose(1, 2)
            wide = normal(batch, m, n, number=number)
            yield f"bmm transposed first {at}", lambda a=wide, b=left: a.transpose(1, 2) @ b
            yield f"baddbmm {at}", lambda a=wide, b=left, c=left: torch.baddbmm(c, a, b)
        left, right = normal(32, 128, 64, number=number), normal(64, 8, 512, number=number)
        yield (
            f"einsum {spelled} 32x128x64x512",
            lambda a=left, b=right: torch.einsum("btc,chd->bthd", a, b),
        )


def decoding() -> Cases:
    """Attention of one query, of few heads of keys, of masks, and by plain products."""
    bf16 = torch.bfloat16
    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "math": SDPBackend.MATH,
    }
    for spelled, backend in backends.items():
        for batch, heads, shared, queries, keys, width in (
            *((1, 32, 32, 1, 4096, 128), (32, 32, 32, 1, 2048, 128), (8, 32, 8, 1, 8192, 128)),
            *((4, 32, 8, 2048, 2048, 128), (16, 16, 16, 16, 1024, 64), (2, 24, 24, 4096, 77, 64)),
            *((8, 8, 8, 1024, 1024, 40), (2, 5, 5, 4096, 4096, 64), (4, 16, 16, 640, 640, 96)),
        ):
            at = f"{spelled} {batch}x{heads}/{shared}x{queries}/{keys}x{width}"
            query = normal(batch, heads, queries, width, number=bf16)
            key = normal(batch, shared, keys, width, number=bf16)
            value = normal(batch, shared, keys, width, number=bf16)

            def attend(
                q: Tensor, k: Tensor, v: Tensor, b: SDPBackend = backend, g: bool = heads != shared
            ) -> Tensor:
                with sdpa_kernel(b):
                    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=g)

            try:
                if queries > 1:
                    yield from both(at, attend, query, key, value)
                else:
                    yield at, lambda q=query, k=key, v=value, a=attend: a(q, k, v)
            except RuntimeError as error:
                print(at, str(error)[:100])
    mask = normal(8, 1, 512, 512, number=bf16)
    query = normal(8, 12, 512, 64, number=bf16)
    yield from both(
        "masked bf16 8x12x512x64",
        lambda q: functional.scaled_dot_product_attention(q, q, q, attn_mask=mask),
        query,
    )


def filters() -> Cases:
    """Convolutions of other shapes: of images and few channels, transposed, spread, of volumes."""
    shapes = (
        *((32, 3, 224, 32, 3, 2, 1, 1), (64, 3, 32, 64, 3, 1, 1, 1), (16, 1, 28, 32, 5, 1, 1, 1)),
        *((16, 3, 512, 64, 3, 1, 1, 1), (64, 32, 112, 16, 1, 1, 1, 1)),
        (64, 16, 112, 96, 1, 1, 1, 1),
        *((64, 96, 112, 96, 3, 2, 96, 1), (64, 144, 56, 144, 3, 1, 144, 1)),
        *((64, 384, 14, 64, 1, 1, 1, 1), (64, 960, 7, 320, 1, 1, 1, 1)),
        (8, 512, 64, 512, 3, 1, 1, 2),
        *((4, 256, 128, 256, 3, 1, 1, 1), (1, 1280, 32, 1280, 3, 1, 1, 1)),
        (16, 64, 128, 3, 3, 1, 1, 1),
        *((128, 64, 32, 128, 3, 2, 1, 1), (32, 192, 35, 64, 5, 1, 1, 1)),
    )  # fmt: skip
    for spelled, number in NUMBERS.items():
        for layout in (torch.contiguous_format, torch.channels_last):
            last = " last" if layout == torch.channels_last else ""
            for batch, inputs, size, outputs, kernel, stride, groups, spread in shapes:
                x = normal(batch, inputs, size, size, number=number).to(memory_format=layout)
                weight = normal(outputs, inputs // groups, kernel, kernel, number=number)
                pad = spread * (kernel // 2)
                at = (
                    f"{spelled}{last} {batch}x{inputs}x{size} "
                    f"{outputs}x{kernel}/{stride} g{groups} d{spread}"
                )
                yield from both(
                    f"conv {at}",
                    lambda x, w, s=stride, p=pad, d=spread, g=groups: functional.conv2d(
                        x, w, None, s, p, d, g
                    ),
                    *(x, weight.to(memory_format=layout)),
                )
        for batch, inputs, size, outputs, kernel, stride in (
            *((64, 512, 8, 256, 4, 2), (64, 128, 32, 64, 4, 2), (64, 64, 32, 3, 4, 2)),
            *((4, 512, 32, 256, 2, 2),),
        ):
            yield from both(
                f"conv_transpose {spelled} {batch}x{inputs}x{size} {outputs}x{kernel}/{stride}",
                lambda x, w, s=stride, p=(kernel - stride) // 2: functional.conv_transpose2d(
                    x, w, None, s, p
                ),
                normal(batch, inputs, size, size, number=number),
                normal(inputs, outputs, kernel, kernel, number=number),
            )
        for batch, inputs, length, outputs, kernel, groups in (
            *((16, 1, 16000, 512, 10, 1), (16, 512, 3200, 512, 3, 1), (8, 80, 3000, 512, 3, 1)),
            *((8, 1024, 500, 1024, 31, 1024), (32, 2048, 512, 2048, 4, 2048)),
        ):
            yield from both(
                f"conv1d {spelled} {batch}x{inputs}x{length} {outputs}x{kernel} g{groups}",
                lambda x, w, g=groups: functional.conv1d(x, w, None, 1, 1, 1, g),
                normal(batch, inputs, length, number=number),
                normal(outputs, inputs // groups, kernel, number=number),
            )
        for batch, inputs, size, outputs, kernel in (
            *((4, 3, 64, 64, 3), (4, 64, 32, 128, 3), (1, 32, 96, 32, 3), (8, 128, 16, 256, 3)),
            *((4, 64, 32, 64, 1),),
        ):
            yield from both(
                f"conv3d {spelled} {batch}x{inputs}x{size} {outputs}x{kernel}",
                lambda x, w, p=kernel // 2: functional.conv3d(x, w, None, 1, p),
                normal(batch, inputs, size, size, size, number=number),
                normal(outputs, inputs, kernel, kernel, kernel, number=number),
            )
            volume = normal(batch, inputs, size, size, size, number=number)
            at = f"{spelled} {batch}x{inputs}x{size}x{size}x{size}"
            yield from both(f"batch_norm3d {at}", nn.BatchNorm3d(inputs, device="cuda"), volume)
            yield from both(
                f"max_pool3d {at}", lambda x: functional.max_pool3d(x, 2), volume.detach().clone()
            )


def solvers() -> Cases:
    """Of one matrix and of batches; transforms of other lengths."""
    for batch, size in ((1, 256), (1, 2048), (64, 64), (512, 16), (16, 512)):
        x = normal(batch, size, size)
        positive = x @ x.transpose(1, 2) + size * torch.eye(size, device="cuda")
        lower = torch.linalg.cholesky(positive)
        at = f"f32 {batch}x{size}"
        calls: dict[str, Operator] = {
            "cholesky": lambda p=positive: torch.linalg.cholesky(p),
            "solve": lambda p=positive, x=x: torch.linalg.solve(p, x),
            "inv": lambda p=positive: torch.linalg.inv(p),
            "det": lambda p=positive: torch.linalg.det(p),
            "lu": lambda x=x: torch.linalg.lu_factor(x),
            "qr": lambda x=x: torch.linalg.qr(x),
            "solve_triangular": lambda lo=lower, x=x: torch.linalg.solve_triangular(
                lo, x, upper=False
            ),
            "cholesky_solve": lambda lo=lower, x=x: torch.cholesky_solve(x, lo),
            "matrix_exp": lambda x=x: torch.matrix_exp(x / 100),
        }
        if size * batch <= 8192:
            calls["eigh"] = lambda p=positive: torch.linalg.eigh(p)
            calls["svd"] = lambda x=x: torch.linalg.svd(x)
        for name, call in calls.items():
            yield f"{name} {at}", call
    for shape in ((16, 1 << 20), (4096, 1024), (256, 1000), (64, 3, 224, 224)):
        x = normal(*shape)
        at = f"f32 {'x'.join(map(str, shape))}"
        forward: Callable[[Tensor], Tensor] = torch.fft.rfft2 if len(shape) > 2 else torch.fft.rfft
        back = torch.fft.irfft2 if len(shape) > 2 else torch.fft.irfft
        z, whole = forward(x), x.to(torch.complex64)
        yield f"rfft {at}", lambda x=x, f=forward: f(x)
        yield f"irfft {at}", lambda z=z, f=back: f(z)
        yield f"fft {at}", lambda x=whole: torch.fft.fft(x)
    sound = normal(16, 160_000)
    window = torch.hann_window(400, device="cuda")
    yield "stft 16x160000", lambda: torch.stft(sound, 400, 160, window=window, return_complex=True)


MORE_PARTS: dict[str, Callable[[], Cases]] = {
    "orders": orders,
    "functions": functions,
    "reductions": reductions,
    "lookups": lookups,
    "searches": searches,
    "layouts": layouts,
    "decoding": decoding,
    "filters": filters,
    "solvers": solvers,
}
