"""Gradients added up in single precision, and the optimizer that works on them.

Facts are from huggingface/nanotron (src/nanotron/optim/gradient_accumulator.py, zero.py): bf16
gradients are added to single-precision ones after every backward pass; in the last one this is done
bucket by bucket, and each bucket is reduced over the data-parallel ranks while the pass goes on
(reduce-scatter with ZeRO-1, else all-reduce); the optimizer has single-precision parameters, a
share of them with ZeRO-1, which are copied to the bf16 ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

_BUCKET_BYTES = 25 << 20  # of bf16 gradients: ddp_bucket_cap_mb
_LARGEST_NORM = 1.0


@dataclass
class Bucket:
    """Parameters in a row, whose memory is one. `owned`: the rank's part, of 4-byte elements."""

    parameters: list[nn.Parameter]
    values: torch.Tensor
    gradients: torch.Tensor
    owned: slice
    missing: int = 0


class Fp32Gradients:
    """Of a stage's parameters, over the data-parallel `group`."""

    def __init__(self, stage: nn.Module, group: dist.ProcessGroup, zero: bool) -> None:
        self.group = group
        self.zero = zero
        parameters = list(reversed(list(stage.parameters())))
        self.buckets = [self._bucket(part) for part in _parts(parameters)]
        self._slices = {}
        self._bucket_of = {}
        self._works: list[dist.Work] = []
        self._last = False
        for bucket in self.buckets:
            at = 0
            for parameter in bucket.parameters:
                part = bucket.gradients[at : at + parameter.numel()]
                self._slices[parameter] = part.view_as(parameter)
                self._bucket_of[parameter] = bucket
                parameter.register_post_accumulate_grad_hook(self._add)
                at += parameter.numel()
        self.masters = [
            nn.Parameter(bucket.values[bucket.owned].float()) for bucket in self.buckets
        ]
        # A stage that only has the loss has nothing to update and steps all the same.
        updated = self.masters or [nn.Parameter(torch.zeros(1, device="cuda"))]
        self.optimizer = torch.optim.AdamW(updated, lr=3e-4, betas=(0.9, 0.95), fused=True)

    def of(self, parameter: nn.Parameter) -> torch.Tensor:
        """A parameter's gradient."""
        return self._slices[parameter]

    @contextlib.contextmanager
    def accumulating(self, last: bool) -> Iterator[None]:
        """Around a backward pass."""
        self._last = last
        for bucket in self.buckets:
            bucket.missing = len(bucket.parameters)
        yield

    def step(self, model_group: dist.ProcessGroup) -> None:
        """Clips and updates, once the last backward pass is through. `model_group`: the ranks that
        have the other parts of the model.
        """
        for work in self._works:
            work.wait()
        self._works.clear()
        for master, bucket in zip(self.masters, self.buckets, strict=True):
            master.grad = bucket.gradients[bucket.owned]
        self._clip(model_group)
        self.optimizer.step()
        with torch.no_grad():
            for master, bucket in zip(self.masters, self.buckets, strict=True):
                bucket.values[bucket.owned].copy_(master)
                if self.zero:
                    own = bucket.values[bucket.owned]
                    dist.all_gather_into_tensor(bucket.values, own, group=self.group)
                bucket.gradients.zero_()

    def _bucket(self, parameters: list[nn.Parameter]) -> Bucket:
        """Moves the parameters' values into one piece of memory."""
        ranks = self.group.size()
        elements = sum(parameter.numel() for parameter in parameters)
        elements = -(-elements // ranks) * ranks
        device = parameters[0].device
        values = torch.zeros(elements, dtype=torch.bfloat16, device=device)
        at = 0
        for parameter in parameters:
            part = values[at : at + parameter.numel()].view_as(parameter)
            part.copy_(parameter.detach())
            parameter.data = part
            at += parameter.numel()
        share = elements // ranks
        mine = slice(share * self.group.rank(), share * (self.group.rank() + 1))
        gradients = torch.zeros(elements, dtype=torch.float, device=device)
        return Bucket(parameters, values, gradients, mine if self.zero else slice(0, elements))

    def _add(self, parameter: nn.Parameter) -> None:
        self._slices[parameter].add_(parameter.grad)
        parameter.grad = None
        bucket = self._bucket_of[parameter]
        bucket.missing -= 1
        if self._last and bucket.missing == 0 and self.group.size() > 1:
            self._works.append(self._reduce(bucket.gradients, bucket.owned))

    def _reduce(self, gradients: torch.Tensor, owned: slice) -> dist.Work:
        average = dist.ReduceOp.AVG
        if not self.zero:
            return dist.all_reduce(gradients, average, group=self.group, async_op=True)
        own = gradients[owned]
        return dist.reduce_scatter_tensor(own, gradients, average, group=self.group, async_op=True)

    def _clip(self, model_group: dist.ProcessGroup) -> None:
        """To the norm over all ranks' parts."""
        norms = [torch.linalg.vector_norm(master.grad) for master in self.masters]
        total = torch.stack(norms).square().sum() if norms else torch.zeros((), device="cuda")
        dist.all_reduce(total, group=model_group)
        if self.zero:
            dist.all_reduce(total, group=self.group)
        factor = (_LARGEST_NORM / (total.sqrt() + 1e-6)).clamp(max=1.0)
        for master in self.masters:
            master.grad.mul_(factor)


def _parts(parameters: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Runs of parameters that come to the size of a bucket."""
    part: list[nn.Parameter] = []
    size_bytes = 0
    for parameter in parameters:
        part.append(parameter)
        size_bytes += parameter.numel() * parameter.element_size()
        if size_bytes >= _BUCKET_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part
