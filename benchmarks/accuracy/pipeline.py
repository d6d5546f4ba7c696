"""One forward, one backward: a pipeline over stages as nanotron runs it.

Facts are from huggingface/nanotron (src/nanotron/parallel/pipeline_parallel/engine.py and p2p.py):
every tensor is announced by two small ones that say what it is, and the receiver reads them number
by number on its host, so that a stage cannot run ahead of what it waits for. The mask travels with
the activations. Here activations and gradients have a communicator each, so that neither waits for
the other; nanotron orders them in one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from fp32_gradients import Fp32Gradients
from sharded_llama import Stage

_DTYPES = (torch.float32, torch.bfloat16, torch.bool)
_FACTS = 7


_SENDS_UNDER_WAY = 2


class Channel:
    """What goes one way along a pipeline. Sends run beside the stage's work; all but the latest
    have ended when another is begun, which the order of the passes allows without waiting for a
    stage that waits for this one.
    """

    def __init__(self, group: dist.ProcessGroup, by: int, device: torch.device) -> None:
        self.group = group
        self.by = by
        self.device = device
        self._sends: deque[list[tuple[dist.Work, torch.Tensor]]] = deque()

    def send(self, tensors: Sequence[torch.Tensor]) -> None:
        """To the next stage of this way."""
        to = dist.get_global_rank(self.group, self.group.rank() + self.by)
        self.finish(_SENDS_UNDER_WAY - 1)
        sends = []
        for tensor in tensors:
            shape = [*tensor.shape, *tensor.stride()]
            facts = [tensor.dim(), len(shape), _DTYPES.index(tensor.dtype), 0, 0, 0, 0]
            words = [torch.tensor(part).to(self.device) for part in (facts, shape)]
            for part in (*words, tensor.contiguous()):
                sends.append((dist.isend(part, to, group=self.group), part))
        self._sends.append(sends)

    def finish(self, but: int = 0) -> None:
        """Waits for all messages but the last few."""
        while len(self._sends) > but:
            for work, _ in self._sends.popleft():
                work.wait()

    def receive(self, count: int) -> list[torch.Tensor]:
        """From the stage before on this way."""
        source = dist.get_global_rank(self.group, self.group.rank() - self.by)
        found = []
        for _ in range(count):
            facts = self._read(_FACTS, source)
            shape = self._read(facts[1], source)[: facts[0]]
            tensor = torch.empty(shape, dtype=_DTYPES[facts[2]], device=self.device)
            dist.irecv(tensor, source, group=self.group).wait()
            found.append(tensor)
        return found

    def _read(self, count: int, source: int) -> list[int]:
        words = torch.empty(count, dtype=torch.long, device=self.device)
        dist.recv(words, source, group=self.group)
        return [int(word) for word in words]


@dataclass(frozen=True)
class Line:
    """A rank's place in its pipeline."""

    activations: Channel
    gradients: Channel

    @property
    def stage(self) -> int:
        """From 0."""
        return int(self.activations.group.rank())

    @property
    def stages(self) -> int:
        """Of the pipeline."""
        return int(self.activations.group.size())


@dataclass(frozen=True)
class Passed:
    """What a micro-batch left behind on its way forward."""

    inputs: torch.Tensor
    outputs: torch.Tensor


class Schedule:
    """The passes of a step's micro-batches."""

    def __init__(self, line: Line, stage: Stage, gradients: Fp32Gradients, count: int) -> None:
        self.line = line
        self.stage = stage
        self.gradients = gradients
        self.count = count
        self.losses: list[torch.Tensor] = []
        self._under_way: deque[Passed] = deque()
        self._done = 0

    def run(self, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Tokens and targets. Leaves the losses, on the stage that has them."""
        ahead = min(self.line.stages - 1 - self.line.stage, self.count)
        for batch in batches[:ahead]:
            self._forward(*batch)
        for batch in batches[ahead:]:
            self._forward(*batch)
            self._backward()
        for _ in range(ahead):
            self._backward()
        self.line.activations.finish()
        self.line.gradients.finish()

    def _forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> None:
        x, mask = tokens, torch.ones(tokens.shape, dtype=torch.bool, device=tokens.device)
        if self.line.stage > 0:
            x, mask = self.line.activations.receive(2)
            x.requires_grad_()
        outputs = self.gradients.wrapped(x, mask, targets)
        if self.stage.loss:
            outputs = outputs / self.count
            self.losses.append(outputs.detach())
        self._under_way.append(Passed(x, outputs))
        if self.line.stage < self.line.stages - 1:
            self.line.activations.send([outputs.detach(), mask])

    def _backward(self) -> None:
        passed = self._under_way.popleft()
        grad = None
        if self.line.stage < self.line.stages - 1:
            (grad,) = self.line.gradients.receive(1)
        self._done += 1
        self.gradients.backward(passed.outputs, grad, last=self._done == self.count)
        if self.line.stage > 0:
            assert passed.inputs.grad is not None
            self.line.gradients.send([passed.inputs.grad])
