"""A pipeline of two workers by torch.distributed.rpc. A third process without a GPU trains it."""

from __future__ import annotations

import os
import threading

import torch
import torch.distributed.autograd as dist_autograd
from torch import multiprocessing, nn
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer

WIDTH, BATCH, STEPS = 16, 8, 3
MICRO_BATCHES = (1, 4)
# Of each worker. All micro-batches may wait for a result there, which needs one more to arrive.
THREADS = 32


class Stage(nn.Module):  # type: ignore[misc]
    """Threads of its worker take turns in it, of which one at most waits for the GPU."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.turns = threading.Lock()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 3, 1)
        ).to(device)

    def forward(self, given: rpc.RRef) -> torch.Tensor:
        here = given.to_here().to(self.device)
        with self.turns:
            result: torch.Tensor = self.layers(here).cpu()
            return result

    def remote_parameters(self) -> list[rpc.RRef]:
        return [rpc.RRef(one) for one in self.parameters()]


class Pipeline(nn.Module):  # type: ignore[misc]
    def __init__(self, workers: list[str]) -> None:
        super().__init__()
        self.stages = [
            rpc.remote(worker, Stage, args=(f"cuda:{device}",))
            for device, worker in enumerate(workers)
        ]

    def forward(self, batch: torch.Tensor, count: int) -> torch.Tensor:
        first, second = self.stages
        results = [
            second.rpc_async().forward(first.remote().forward(rpc.RRef(part)))
            for part in batch.chunk(count)
        ]
        return torch.cat(torch.futures.wait_all(results))

    def remote_parameters(self) -> list[rpc.RRef]:
        return [one for stage in self.stages for one in stage.rpc_sync().remote_parameters()]


def train(count: int) -> None:
    model = Pipeline(["worker1", "worker2"])
    optimizer = DistributedOptimizer(torch.optim.SGD, model.remote_parameters(), lr=0.05)
    for _ in range(STEPS):
        with dist_autograd.context() as context:
            loss = model(torch.randn(BATCH, 3, WIDTH, WIDTH), count).square().mean()
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
    print(f"{count} micro-batches: trained", flush=True)


def work(process: int) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29531"
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=THREADS)
    name = f"worker{process}" if process else "master"
    rpc.init_rpc(name, rank=process, world_size=3, rpc_backend_options=options)
    if process == 0:
        for count in MICRO_BATCHES:
            train(count)
    rpc.shutdown()


if __name__ == "__main__":
    multiprocessing.spawn(work, nprocs=3)
