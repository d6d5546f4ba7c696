"""Pipelines by hand: GPipe and 1F1B of two and four stages, three iterations each.

A stage has one kernel for the forward pass of a micro-batch and one for its backward pass; both
leave most of the GPU free. All receives of an iteration are posted at its start. Every boundary has
a group for each direction, hence a stream: no transfer waits behind one that goes the other way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
MICRO_BATCHES = 8
MESSAGE_BYTES = 200_000
ITERATIONS = 3
# By name: the ranks that are the stages. The two of the short one sit on different nodes.
STAGES = {"four": (0, 1, 2, 3), "two": (1, 2)}

Order = Callable[[int, int], Iterator[tuple[str, int]]]


def gpipe(_stage: int, _stages: int) -> Iterator[tuple[str, int]]:
    """All forward passes, then all backward passes."""
    yield from (("forward", i) for i in range(MICRO_BATCHES))
    yield from (("backward", i) for i in range(MICRO_BATCHES))


def one_forward_one_backward(stage: int, stages: int) -> Iterator[tuple[str, int]]:
    """As many forward passes ahead as there are stages behind."""
    ahead = stages - stage - 1
    yield from (("forward", i) for i in range(ahead))
    for i in range(ahead, MICRO_BATCHES):
        yield "forward", i
        yield "backward", i - ahead
    yield from (("backward", i) for i in range(MICRO_BATCHES - ahead, MICRO_BATCHES))


class Boundary:
    """The way from this stage to a neighbour and back."""

    def __init__(self, neighbour: int, out: dist.ProcessGroup, into: dist.ProcessGroup) -> None:
        self.neighbour = neighbour
        self.out = out
        self.into = into
        self.messages = [message() for _ in range(MICRO_BATCHES)]
        self.receives: list[dist.Work] = []
        self.sends: list[dist.Work] = []

    def post(self) -> None:
        self.receives = [dist.irecv(one, self.neighbour, group=self.into) for one in self.messages]

    def send(self, what: torch.Tensor) -> None:
        self.sends.append(dist.isend(what, self.neighbour, group=self.out))

    def finish(self) -> None:
        for send in self.sends:
            send.wait()
        self.sends = []


def message() -> torch.Tensor:
    return torch.empty(MESSAGE_BYTES // 2, dtype=torch.bfloat16, device=DEVICE)


class Stage:
    """This rank's part of a pipeline."""

    def __init__(self, before: Boundary | None, after: Boundary | None) -> None:
        self.before = before
        self.after = after
        self.rows = torch.empty(16, 1 << 20, dtype=torch.bfloat16, device=DEVICE)
        self.result = torch.empty_like(self.rows)
        self.message = message()

    def run(self, order: Iterator[tuple[str, int]]) -> None:
        """One iteration."""
        for boundary in filter(None, (self.before, self.after)):
            boundary.post()
        for direction, micro_batch in order:
            ahead = direction == "forward"
            source, target = (self.before, self.after) if ahead else (self.after, self.before)
            if source is not None:
                source.receives[micro_batch].wait()
            compute = torch.softmax if ahead else torch.log_softmax
            compute(self.rows, -1, out=self.result)
            if target is not None:
                target.send(self.message)
        for boundary in filter(None, (self.before, self.after)):
            boundary.finish()


def main() -> None:
    """All pipelines."""
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    groups = {
        (source, target): dist.new_group([source, target])
        for source, target in ((0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2))
    }

    def boundary(ranks: tuple[int, ...], position: int) -> Boundary | None:
        if not 0 <= position < len(ranks):
            return None
        peer = ranks[position]
        return Boundary(peer, groups[RANK, peer], groups[peer, RANK])

    for schedule in (gpipe, one_forward_one_backward):
        for name, ranks in STAGES.items():
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            if RANK not in ranks:
                continue
            own = ranks.index(RANK)
            stage = Stage(boundary(ranks, own - 1), boundary(ranks, own + 1))
            for _ in range(ITERATIONS):
                with torch.cuda.nvtx.range(f"{schedule.__name__} {name}"):
                    stage.run(schedule(own, len(ranks)))
                    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
