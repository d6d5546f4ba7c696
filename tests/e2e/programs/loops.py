"""Loops that PyTorch's users write, each of which prints how long an iteration takes by its own
clock: `loops.py KIND`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, STEPS, MANY_STEPS, MICRO_BATCHES, EVALUATE_EVERY = 512, 64, 8, 200, 4, 3
LOG_EVERY = 10
Body = Callable[[int], None]


def layers(depth: int = 4) -> nn.Module:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(depth))).cuda()


def batch() -> torch.Tensor:
    return torch.ones(BATCH, WIDTH, device="cuda")


def parallel(module: nn.Module) -> DistributedDataParallel:
    return DistributedDataParallel(module)


def plain() -> Body:
    """Half of the work of a step more, for evaluation, every few steps."""
    model = parallel(layers())
    optimizer = torch.optim.AdamW(model.parameters())

    def step(number: int) -> None:
        model(batch()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            with torch.no_grad():
                for _ in range(4):
                    model(batch())

    return step


def accumulating() -> Body:
    """Gradients are reduced with the last micro-batch alone."""
    model = parallel(layers())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(_: int) -> None:
        for micro_batch in range(MICRO_BATCHES):
            is_last = micro_batch == MICRO_BATCHES - 1
            with nullcontext() if is_last else model.no_sync():
                model(batch()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def gan() -> Body:
    """Two optimizers; the discriminator steps twice."""
    generator, discriminator = parallel(layers(6)), parallel(layers(2))
    ours = torch.optim.Adam(generator.parameters())
    theirs = torch.optim.SGD(discriminator.parameters(), 0.1)

    def step(_: int) -> None:
        for _ in range(2):
            (discriminator(batch()).mean() - discriminator(batch()).mean()).backward()
            theirs.step()
            theirs.zero_grad()
        discriminator(generator(batch())).mean().backward()
        ours.step()
        ours.zero_grad()
        theirs.zero_grad()

    return step


def muon() -> Body:
    """Muon for matrices, AdamW for the rest."""
    model = parallel(layers())
    matrices = [one for one in model.parameters() if one.ndim == 2]
    others = [one for one in model.parameters() if one.ndim != 2]
    optimizers = [torch.optim.Muon(matrices), torch.optim.AdamW(others)]

    def step(_: int) -> None:
        model(batch()).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    return step


def sharded() -> Body:
    """An optimizer that steps another one, for the rank's part of the parameters."""
    model = parallel(layers())
    parameters = model.parameters()
    optimizer = ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.AdamW)

    def step(_: int) -> None:
        model(batch()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def inference() -> Body:
    model = layers()

    def step(_: int) -> None:
        with torch.inference_mode():
            model(batch())

    return step


def forward_backward() -> Body:
    model = parallel(layers())

    def step(_: int) -> None:
        model(batch()).square().mean().backward()

    return step


def own_descent() -> Body:
    """Without an optimizer of PyTorch's."""
    model = parallel(layers())

    def step(_: int) -> None:
        model.zero_grad()
        model(batch()).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(parameter.grad, alpha=-0.1)

    return step


def own_accumulation() -> Body:
    """Likewise, with micro-batches."""
    model = layers()

    def step(_: int) -> None:
        model.zero_grad()
        for _ in range(MICRO_BATCHES):
            model(batch()).square().mean().backward()
        model[0].weight.data.add_(model[0].weight.grad, alpha=-0.1)

    return step


def pipeline() -> Body:
    """A stage on each rank, an optimizer on each stage."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", torch.cuda.current_device())
    model = layers(2)
    stage = PipelineStage(model, rank, ranks, device)
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(_: int) -> None:
        arguments = (batch(),) if rank == 0 else ()
        target = {"target": batch()} if rank == ranks - 1 else {}
        schedule.step(*arguments, **target)
        optimizer.step()
        optimizer.zero_grad()

    return step


def policy() -> Body:
    """Rollouts without gradients, then several steps on what came of them."""
    model = parallel(layers())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(_: int) -> None:
        with torch.no_grad():
            for _ in range(16):
                model(batch())
        for _ in range(3):
            model(batch()).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return step


KINDS: dict[str, Callable[[], Body]] = {
    one.__name__: one
    for one in (
        *(plain, accumulating, gan, muon, sharded, inference, forward_backward),
        *(own_descent, own_accumulation, pipeline, policy),
    )
}


def timed(step: Body) -> Iterator[float]:
    """Each step by itself."""
    for number in range(STEPS):
        begin_s = time.perf_counter()
        step(number)
        torch.cuda.synchronize()
        yield time.perf_counter() - begin_s


def timed_for_a_log(step: Body) -> Iterator[float]:
    """Several steps together, from log to log."""
    begin_s = time.perf_counter()
    for number in range(1, 6 * LOG_EVERY + 1):
        step(number)
        if number % LOG_EVERY == 0:
            torch.cuda.synchronize()
            yield (time.perf_counter() - begin_s) / LOG_EVERY
            begin_s = time.perf_counter()


def timed_as_a_whole(step: Body) -> Iterator[float]:
    """All steps after a first one; so many that how hosts get ahead at the begin hardly counts."""
    step(0)
    torch.cuda.synchronize()
    begin_s = time.perf_counter()
    for number in range(MANY_STEPS):
        step(number)
    torch.cuda.synchronize()
    yield (time.perf_counter() - begin_s) / MANY_STEPS


WAYS: dict[str, Callable[[Body], Iterator[float]]] = {
    "": timed,
    "log": timed_for_a_log,
    "whole": timed_as_a_whole,
}


def main() -> None:
    kind, _, way = sys.argv[1].partition("+")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    step = KINDS[kind]()
    for lasted_s in WAYS[way](step):
        if dist.get_rank() == 0:
            print(f"iteration {lasted_s:.9f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
