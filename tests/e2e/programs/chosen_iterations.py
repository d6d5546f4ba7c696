"""Loops of which a user says what an iteration is; each prints the time by its own clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module

import torch
from torch.cuda import nvtx

WARM_UP, ITERATIONS = 2, 8


def accumulated() -> Callable[[], None]:
    work = import_module("chosen_work")
    model = work.make_model()
    optimizer = torch.optim.AdamW(model.parameters())

    def iteration() -> None:
        for _ in range(4):
            (model(work.sample()).mean() / 4).backward()
        optimizer.step()
        optimizer.zero_grad()

    return iteration


def adversaries() -> Callable[[], None]:
    """Three steps of the second optimizer for each of the first, which has a schedule."""
    work = import_module("chosen_work")
    first, second = work.make_model(4), work.make_model(8)
    optimizers = torch.optim.AdamW(first.parameters()), torch.optim.SGD(second.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizers[0], 1)

    def iteration() -> None:
        for _ in range(3):
            second(first(work.sample()).detach()).mean().backward()
            optimizers[1].step()
        second(first(work.sample())).mean().backward()
        optimizers[0].step()
        schedule.step()

    return iteration


def ranges() -> Callable[[], None]:
    """Nested, and popped once too often."""
    trainer = import_module("chosen_work").Trainer()

    def iteration() -> None:
        nvtx.range_push("outer")
        with nvtx.range("inner"):
            trainer.step()
        trainer.step()
        nvtx.range_pop()
        nvtx.range_pop()  # one too many
        nvtx.range_end(nvtx.range_start("elsewhere"))

    return iteration


def calls() -> Callable[[], None]:
    work = import_module("chosen_work")
    trainer = work.Trainer()

    def iteration() -> None:
        work.two_steps(trainer)
        work.Trainer.both(trainer, trainer)
        assert work.Trainer.made(trainer) is trainer

    return iteration


def profiled() -> Callable[[], None]:
    step = accumulated()
    profiler = torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=1))
    profiler.start()

    def iteration() -> None:
        step()
        step()
        profiler.step()

    return iteration


def main() -> None:
    iteration = globals()[sys.argv[1]]()
    for number in range(WARM_UP + ITERATIONS):
        if number == WARM_UP:
            torch.cuda.synchronize()
            begin_s = time.perf_counter()
        iteration()
    torch.cuda.synchronize()
    print(f"iteration {(time.perf_counter() - begin_s) / ITERATIONS:.9f} s", flush=True)


if __name__ == "__main__":
    main()
