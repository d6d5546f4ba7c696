"""Layers of a tensor-parallel decoder with sequence parallelism, as nanotron computes them.

Facts are from huggingface/nanotron (src/nanotron/parallel/tensor_parallel/functional.py and nn.py,
mode REDUCE_SCATTER with asynchronous communication): activations are sharded along their first
dimension, the sequence, between layers; a rank multiplies what it has while the rest is gathered;
gathered inputs are not kept but gathered again for the backward pass; the cross entropy works on
sharded logits in single precision.

And a fact of PyTorch before 2.8, which is younger than the published runs: memory that a collective
worked on is not reused before the device is through with it, however far ahead the host is
(removed by pytorch/pytorch#150398; pytorch/torchtitan#737 says what it costs).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

Group: TypeAlias = dist.ProcessGroup

_buffers: dict[str, torch.Tensor] = {}
_streams: dict[Group, torch.cuda.Stream] = {}


def held(work: dist.Work, tensor: torch.Tensor, group: Group) -> dist.Work:
    """The collective, until whose end on the device the allocator leaves `tensor` alone."""
    stream = _streams.setdefault(group, torch.cuda.Stream())
    with torch.cuda.stream(stream):
        work.wait()
    tensor.record_stream(stream)
    return work


def shared_buffer(name: str, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """Memory that all layers gather into, one after the other."""
    elements = 1
    for size in shape:
        elements *= size
    held = _buffers.get(name)
    if held is None or held.numel() < elements:
        held = _buffers[name] = torch.empty(elements, dtype=like.dtype, device=like.device)
    return held[:elements].view(shape)


def _gather(name: str, x: torch.Tensor, group: Group) -> tuple[torch.Tensor, dist.Work]:
    whole = shared_buffer(name, (x.shape[0] * group.size(), *x.shape[1:]), x)
    own = x.contiguous()
    work = dist.all_gather_into_tensor(whole, own, group=group, async_op=True)
    return whole, held(work, own, group)


def _multiply_while_gathering(
    own: torch.Tensor, whole: torch.Tensor, work: dist.Work, weight: torch.Tensor, group: Group
) -> torch.Tensor:
    """`whole @ weight`: the rank's own rows at once, those before and after it once they are in."""
    rows = own.shape[0]
    begin = rows * group.rank()
    result = own.new_empty(*whole.shape[:-1], weight.shape[1])

    def multiply(part: torch.Tensor, at: slice) -> None:
        into = result[at].view(-1, weight.shape[1])
        torch.mm(part.reshape(-1, part.shape[-1]), weight, out=into)

    multiply(own, slice(begin, begin + rows))
    work.wait()
    for at in (slice(0, begin), slice(begin + rows, whole.shape[0])):
        if at.stop > at.start:
            multiply(whole[at], at)
    return result


class _Column(torch.autograd.Function):
    """A linear layer of which every rank has some outputs."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.group = group
        ctx.save_for_backward(x, weight)
        if group.size() == 1:
            return functional.linear(x, weight)
        whole, work = _gather("gathered", x, group)
        return _multiply_while_gathering(x, whole, work, weight.t(), group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, weight = ctx.saved_tensors
        single = ctx.group.size() == 1
        whole, gathering = (x, None) if single else _gather("gathered", x, ctx.group)
        grad_whole = grad.matmul(weight)
        grad = grad.contiguous().flatten(0, -2)
        grad_x, reducing = grad_whole, None
        if gathering is not None:
            grad_x = torch.empty_like(x)
            reducing = _scatter(grad_x, grad_whole, ctx.group)
            gathering.wait()
        grad_weight = grad.t().matmul(whole.flatten(0, -2))
        if reducing is not None:
            reducing.wait()
        return grad_x, grad_weight, None


class _Row(torch.autograd.Function):
    """A linear layer of which every rank has some inputs."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.group = group
        ctx.save_for_backward(x, weight)
        whole = functional.linear(x, weight)
        return whole if group.size() == 1 else scatter_sum(whole, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, weight = ctx.saved_tensors
        if ctx.group.size() == 1:
            whole, grad_x = grad, grad.matmul(weight)
        else:
            grad = grad.contiguous()
            whole, work = _gather("gathered gradients", grad, ctx.group)
            grad_x = _multiply_while_gathering(grad, whole, work, weight, ctx.group)
        grad_weight = whole.flatten(0, -2).t().matmul(x.contiguous().flatten(0, -2))
        return grad_x, grad_weight, None


def _scatter(own: torch.Tensor, whole: torch.Tensor, group: Group) -> dist.Work:
    work = dist.reduce_scatter_tensor(own, whole, group=group, async_op=True)
    return held(work, whole, group)


def scatter_sum(whole: torch.Tensor, group: Group) -> torch.Tensor:
    """The rank's rows of the sum over ranks."""
    own = whole.new_empty(whole.shape[0] // group.size(), *whole.shape[1:])
    _scatter(own, whole.contiguous(), group).wait()
    return own


class _ScatterSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.group = group
        return scatter_sum(whole, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        whole = grad.new_empty(grad.shape[0] * ctx.group.size(), *grad.shape[1:])
        work = dist.all_gather_into_tensor(whole, grad.contiguous(), group=ctx.group, async_op=True)
        held(work, whole, ctx.group).wait()
        return whole, None


class ColumnLinear(nn.Module):
    """Outputs sharded; inputs gathered."""

    def __init__(self, inputs: int, outputs: int, group: Group) -> None:
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(torch.empty(outputs // group.size(), inputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Column.apply(x, self.weight, self.group)


class RowLinear(nn.Module):
    """Inputs sharded; outputs added up and scattered."""

    def __init__(self, inputs: int, outputs: int, group: Group) -> None:
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(torch.empty(outputs, inputs // group.size()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Row.apply(x, self.weight, self.group)


class ShardedEmbedding(nn.Module):
    """Every rank has the rows of some tokens."""

    def __init__(self, vocabulary: int, width: int, group: Group) -> None:
        super().__init__()
        self.group = group
        self.rows = vocabulary // group.size()
        self.weight = nn.Parameter(torch.empty(self.rows, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.group.size() == 1:
            return functional.embedding(tokens, self.weight)
        first = self.rows * self.group.rank()
        others = (tokens < first) | (tokens >= first + self.rows)
        own = (tokens - first).masked_fill(others, 0)
        found = functional.embedding(own, self.weight) * ~others.unsqueeze(-1)
        return _ScatterSum.apply(found, self.group)


class _CrossEntropy(torch.autograd.Function):
    """Of every token, from logits whose last dimension is sharded."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, group: Group
    ) -> torch.Tensor:
        highest = torch.max(logits, dim=-1)[0]
        dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=group)
        logits = logits - highest.unsqueeze(-1)
        columns = logits.shape[-1]
        first = columns * group.rank()
        others = (targets < first) | (targets >= first + columns)
        own = (targets - first).masked_fill(others, 0).view(-1)
        rows = torch.arange(own.shape[0], device=own.device)
        chosen = logits.view(-1, columns)[rows, own].view_as(targets).masked_fill(others, 0.0)
        dist.all_reduce(chosen, group=group)
        weights = torch.exp(logits, out=logits)
        total = weights.sum(dim=-1)
        dist.all_reduce(total, group=group)
        loss = torch.log(total) - chosen
        weights.div_(total.unsqueeze(-1))
        ctx.save_for_backward(weights, others, own)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        weights, others, own = ctx.saved_tensors
        rows = torch.arange(own.shape[0], device=own.device)
        weights.view(-1, weights.shape[-1])[rows, own] -= 1.0 - others.view(-1).float()
        return weights.mul_(grad.unsqueeze(-1)), None, None


def sharded_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, group: Group
) -> torch.Tensor:
    """The loss of every token, in single precision."""
    return _CrossEntropy.apply(logits.float(), targets, group)
