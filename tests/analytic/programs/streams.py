"""Kernels and collectives beside each other: one NVTX range a case.

Four ranks on two nodes. Before every case all ranks stand at the same time. `test_streams.py` works
out by hand when everything happens.
"""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
HALF = torch.bfloat16


class Product:
    """A product of square matrices."""

    def __init__(self, size: int) -> None:
        self._matrices = [torch.empty(size, size, dtype=HALF, device=DEVICE) for _ in range(3)]

    def __call__(self, times: int) -> None:
        left, right, result = self._matrices
        for _ in range(times):
            torch.mm(left, right, out=result)


def gradients(size_bytes: int) -> torch.Tensor:
    return torch.empty(size_bytes // 4, dtype=torch.float32, device=DEVICE)


class Cases:
    """Every public method is a case. `work`: small products; `wide`: one that fills the GPU."""

    def __init__(self) -> None:
        self.work, self.wide = Product(512), Product(4096)
        self.small, self.large = gradients(400_000), gradients(4_000_000)
        self.half, self.odd = gradients(2_000_000), gradients(1_000_004)
        self._pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        self._all = [dist.new_group([0, 1, 2, 3]) for _ in range(2)]
        self._side = [torch.cuda.Stream() for _ in range(2)]

    def hidden(self) -> None:
        reduce = dist.all_reduce(self.small, async_op=True)
        self.work(40)
        reduce.wait()
        self.work(1)

    def exposed(self) -> None:
        self.work(3)
        reduce = dist.all_reduce(self.large, async_op=True)
        self.work(40)
        reduce.wait()
        self.work(2)

    def shared(self) -> None:
        reduce = dist.all_reduce(self.small, async_op=True)
        self.wide(1)
        reduce.wait()

    def shared_by_two(self) -> None:
        reduces = [
            dist.all_reduce(buffer, group=group, async_op=True)
            for buffer, group in zip((self.large, self.half), self._all, strict=True)
        ]
        self.wide(10)
        for reduce in reduces:
            reduce.wait()

    def late(self) -> None:
        self.work(5 * RANK)
        dist.all_reduce(self.large)
        self.work(1)

    def asleep(self) -> None:
        if RANK == 1:
            time.sleep(0.001)
        dist.all_reduce(self.small)

    def dependent(self) -> None:
        """The first side stream waits for two products, the second for the first, main for it."""
        events = [torch.cuda.Event() for _ in range(3)]
        self.work(2)
        events[0].record()
        with torch.cuda.stream(self._side[0]):
            self._side[0].wait_event(events[0])
            self.work(4)
            events[1].record()
        self.work(3)
        with torch.cuda.stream(self._side[1]):
            self._side[1].wait_event(events[1])
            self.work(1)
            events[2].record()
        torch.cuda.current_stream().wait_event(events[2])
        self.work(1)

    def chained(self) -> None:
        main_stream = torch.cuda.current_stream()
        for _ in range(5):
            self.work(1)
            self._side[0].wait_stream(main_stream)
            with torch.cuda.stream(self._side[0]):
                self.work(2)
            main_stream.wait_stream(self._side[0])

    def straggler(self) -> None:
        self.work(11 if RANK == 2 else 1)
        dist.barrier()
        self.work(1)

    def shared_nic(self) -> None:
        dist.all_reduce(self.large, group=self._pairs[RANK % 2])

    def unequal(self) -> None:
        buffer = self.half if RANK % 2 else self.large
        dist.all_reduce(buffer, group=self._pairs[RANK % 2])

    def staggered(self) -> None:
        self.work(50 * (RANK % 2))
        dist.all_reduce(self.large, group=self._pairs[RANK % 2])

    def rounded(self) -> None:
        dist.all_reduce(self.odd, group=self._pairs[RANK % 2])

    def sent_across(self) -> None:
        if RANK == 0:
            dist.send(self.large, 2)
        elif RANK == 2:
            dist.recv(self.large, 0)

    def sent_inside(self) -> None:
        self.work(3 * (RANK % 2))
        if RANK % 2:
            dist.recv(self.odd, RANK - 1)
        else:
            dist.send(self.odd, RANK + 1)

    def both_ways(self) -> None:
        """Nodes exchange: the first sends the large buffer, the second the odd one."""
        peer = (RANK + 2) % 4
        out, into = (self.large, self.odd) if RANK < 2 else (self.odd, self.large)
        operations = [dist.P2POp(dist.isend, out, peer), dist.P2POp(dist.irecv, into, peer)]
        for operation in dist.batch_isend_irecv(operations):
            operation.wait()
        self.work(1)

    def read_back(self) -> None:
        for _ in range(3):
            self.work(10)
            self.small[0].item()


def main() -> None:
    """All cases, each twice: the first time PyTorch loads and allocates things."""
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    cases = Cases()
    for turn in ("warm-up", "measured"):
        for name in [name for name in vars(Cases) if not name.startswith("_")]:
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            with torch.cuda.nvtx.range(f"{turn} {name}"):
                getattr(cases, name)()
                torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
