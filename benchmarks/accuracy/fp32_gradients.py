"""Gradients added up in single precision, and the optimizer that works on them.

Facts are from huggingface/nanotron (trainer.py, distributed.py and, in optim, gradient_accumulator,
zero and clip_grads): the bf16 gradients of a backward pass are all there before they are added to
the single-precision ones, which are one piece of memory. Without ZeRO data-parallel ranks have
PyTorch's DDP around the stage, in whose buckets the last pass's gradients are added and reduced
while it goes on. With ZeRO-1 there is no DDP: all gradients are reduced to all ranks after the last
pass, each rank updates its share of every parameter in single precision, and the shares are
gathered by way of two copies of the whole stage.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

_BUCKET_MIB = 25  # of bf16 gradients: ddp_bucket_cap_mb
_LARGEST_NORM = 1.0


class Fp32Gradients:
    """Of a stage's parameters, over the data-parallel `group`. `wrapped`: the stage as it has to be
    called.
    """

    def __init__(self, stage: nn.Module, group: dist.ProcessGroup, zero: bool) -> None:
        self.group = group
        self.zero = zero
        self.parameters = list(stage.parameters())
        self._whole, parts = _single_precision(self.parameters)
        self._gradients = dict(zip(self.parameters, parts, strict=True))
        self._owned = [self._shares(one)[group.rank() if zero else 0] for one in self.parameters]
        memory, copies = _single_precision(self._owned)
        self.masters = [
            nn.Parameter(copy.copy_(own)) for copy, own in zip(copies, self._owned, strict=True)
        ]
        # A stage that only has the loss has nothing to update and steps all the same.
        updated = self.masters or [nn.Parameter(memory)]
        self.optimizer = torch.optim.AdamW(updated, lr=3e-4, betas=(0.9, 0.95), fused=True)
        self._works: list[dist.Work] = []
        self._ddp = None
        if group.size() > 1 and not zero and self.parameters:
            self._ddp = DistributedDataParallel(
                stage, process_group=group, broadcast_buffers=False, bucket_cap_mb=_BUCKET_MIB
            )
            self._ddp.require_backward_grad_sync = False
            self._ddp.register_comm_hook(self, lambda state, bucket: state.reduce_bucket(bucket))
        self.wrapped = self._ddp or stage

    def of(self, parameter: nn.Parameter) -> torch.Tensor:
        """A parameter's gradient."""
        return self._gradients[parameter]

    def backward(self, outputs: torch.Tensor, grad: torch.Tensor | None, last: bool) -> None:
        """A backward pass. `last`: of the step."""
        in_buckets = False
        if last and self._ddp is not None:
            in_buckets = True
            self._ddp.reducer.prepare_for_backward([])
        outputs.backward(grad)
        for parameter in self.parameters:
            if not in_buckets:
                self._gradients[parameter].add_(parameter.grad)
            parameter.grad = None

    def reduce_bucket(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """What DDP does with a bucket of gradients."""
        parts = [self._gradients[parameter] for parameter in bucket.parameters()]
        for part, grad in zip(parts, bucket.gradients(), strict=True):
            part.add_(grad.view_as(part))
        average = dist.ReduceOp.AVG
        with dist._coalescing_manager(self.group, async_ops=True) as works:
            for part in parts:
                dist.all_reduce(part, average, group=self.group)
        self._works.append(works)
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def reduce(self) -> None:
        """Over the data-parallel ranks, once the last backward pass is through."""
        for work in self._works:
            work.wait()
        self._works.clear()
        if self.zero and self.parameters:
            dist.all_reduce(self._whole, dist.ReduceOp.AVG, group=self.group)

    def step(self, model_group: dist.ProcessGroup) -> None:
        """Clips and updates. `model_group`: the ranks that have the other parts of the model."""
        self._clip(model_group)
        for master, parameter in zip(self.masters, self.parameters, strict=True):
            shares = self._shares(self._gradients[parameter])
            master.grad = shares[self.group.rank() if self.zero else 0].view_as(master)
        self.optimizer.step()
        with torch.no_grad():
            for master, own in zip(self.masters, self._owned, strict=True):
                own.copy_(master)
            if self.zero and self.parameters:
                self._gather()
            self._whole.zero_()

    def _shares(self, tensor: torch.Tensor) -> Sequence[torch.Tensor]:
        """The ranks' parts of a parameter or its gradient; without ZeRO the whole."""
        ranks = self.group.size() if self.zero else 1
        return list(tensor.detach().view(-1).tensor_split(ranks))

    def _gather(self) -> None:
        shares = list(zip(*map(self._shares, self.parameters), strict=True))
        copies = [torch.cat(of_rank) for of_rank in shares]
        # PyTorch's all_gather of the time: it filled one tensor and copied from there.
        filled = copies[0].new_empty(len(copies), copies[0].numel())
        dist.all_gather_into_tensor(filled, torch.cat(self._owned), group=self.group)
        for copy, part in zip(copies, filled, strict=True):
            copy.copy_(part)
        for copy, of_rank in zip(copies, shares, strict=True):
            parts = copy.split([part.numel() for part in of_rank])
            for part, gathered in zip(of_rank, parts, strict=True):
                part.copy_(gathered)

    def _clip(self, model_group: dist.ProcessGroup) -> None:
        """To the norm over all ranks' parts."""
        norms = [torch.linalg.vector_norm(grad) for grad in self._gradients.values()]
        total = torch.stack(norms).square().sum() if norms else torch.zeros((), device="cuda")
        dist.all_reduce(total, group=model_group)
        factor = (_LARGEST_NORM / (total.sqrt() + 1e-6)).clamp(max=1.0)
        for grad in self._gradients.values():
            grad.mul_(factor)


def _single_precision(
    tensors: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Zeros in one piece, and the parts of it that have the shapes of `tensors`."""
    sizes = [tensor.numel() for tensor in tensors]
    memory = torch.zeros(sum(sizes) or 1, dtype=torch.float, device="cuda")
    parts = memory[: sum(sizes)].split(sizes) if sizes else ()
    return memory, [part.view(like.shape) for part, like in zip(parts, tensors, strict=True)]
