"""One process with several GPUs: `several_gpus.py WHAT GPUS`."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.cuda import nccl

WIDTH, STEPS, MIB = 1024, 4, 1 << 20
NCCL_FLOAT, NCCL_SUM = 7, 0


def run_layers(gpus: int) -> None:
    """A layer on each GPU, by hand, and what programs ask of their devices."""
    layers = [nn.Linear(WIDTH, WIDTH, device=gpu) for gpu in range(gpus)]
    optimizer = torch.optim.SGD([one for layer in layers for one in layer.parameters()], 0.1)
    for _ in range(STEPS):
        hidden = torch.randn(256, WIDTH, device=0)
        for gpu, layer in enumerate(layers):
            hidden = layer(hidden.to(gpu)).relu()
        hidden.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    for gpu in range(gpus):
        torch.cuda.synchronize(gpu)
    print("copied", torch.arange(4, device=1).to(0).to(gpus - 1).tolist(), flush=True)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.Stream(1)
    source, copy = (torch.empty(400 * MIB, dtype=torch.uint8, device=gpu) for gpu in (1, 0))
    torch.cuda.synchronize(0)
    with torch.cuda.stream(stream):
        begin.record()
        copy.copy_(source, non_blocking=True)
        end.record()
    torch.cuda.current_stream(0).wait_event(end)
    copy.add_(1)
    torch.cuda.synchronize(0)
    print(f"400 MiB in {begin.elapsed_time(end):.3f} ms", flush=True)
    try:
        torch.empty(79 << 30, dtype=torch.uint8, device=1)
    except torch.cuda.OutOfMemoryError as error:
        print(str(error)[:60], flush=True)
    torch.cuda.reset_peak_memory_stats(1)
    torch.empty(3 << 30, dtype=torch.uint8, device=1)


def run_parallel(gpus: int) -> None:
    """DataParallel: copies of the module, threads, collectives of one process."""
    model = nn.DataParallel(nn.Linear(WIDTH, WIDTH).cuda(), list(range(gpus)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        model(torch.randn(64, WIDTH, device=0)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def run_threads(gpus: int) -> None:
    """A thread for each GPU; they launch in turn. The process is the rank of its first GPU."""
    torch.zeros(1, device=0)
    meeting = threading.Barrier(gpus)

    def launch(gpu: int) -> None:
        sums = torch.zeros(8, device=gpu)
        for _ in range(STEPS):
            meeting.wait()
            sums.add_(1)

    threads = [threading.Thread(target=launch, args=(gpu,)) for gpu in range(gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_collectives(gpus: int) -> None:
    """ncclCommInitAll, and groups over all devices."""
    for size in (4, 64 * MIB):
        inputs = [torch.full((size,), float(gpu + 1), device=gpu) for gpu in range(gpus)]
        nccl.all_reduce(inputs)
    small = [torch.full((4,), float(gpu + 1), device=gpu) for gpu in range(gpus)]
    nccl.all_reduce(small)
    print("reduced", [one[0].item() for one in small], flush=True)
    outputs = [torch.empty(4 * gpus, device=gpu) for gpu in range(gpus)]
    nccl.all_gather(small, outputs)
    nccl.broadcast(small, gpus - 1)
    print("gathered", outputs[-1][::4].tolist(), flush=True)


def run_rank(_: int) -> None:
    """The same all-reduces, with a process for each GPU."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for size in (4, 64 * MIB):
        dist.all_reduce(torch.ones(size, device="cuda"))
    torch.cuda.synchronize()
    dist.destroy_process_group()


class UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_char * 128),)


def call(name: str, *args: object) -> None:
    """NCCL's own interface: PyTorch has none for a group of new communicators."""
    status = getattr(ctypes.CDLL("libnccl.so.2"), name)(*args)
    assert status == 0, f"{name}: {status}"


def reduce_in_worker(worker: int, identifier: bytes, gpus: int) -> None:
    """Half of the GPUs, of which the process sees no others."""
    own = gpus // 2
    first = worker * own
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(first, first + own)))
    assert torch.cuda.device_count() == own
    comms = [ctypes.c_void_p() for _ in range(own)]
    call("ncclGroupStart")
    for device, comm in enumerate(comms):
        torch.cuda.set_device(device)
        unique = UniqueId.from_buffer_copy(identifier)
        call("ncclCommInitRank", ctypes.byref(comm), gpus, unique, first + device)
    call("ncclGroupEnd")
    for size in (64 * MIB, 4):
        inputs = [torch.full((size,), float(first + one + 1), device=one) for one in range(own)]
        call("ncclGroupStart")
        for tensor, comm in zip(inputs, comms, strict=True):
            at = ctypes.c_void_p(tensor.data_ptr())
            call("ncclAllReduce", at, at, ctypes.c_size_t(size), NCCL_FLOAT, NCCL_SUM, comm, None)
        call("ncclGroupEnd")
    # In one write: the other worker prints at the same time.
    print(f"reduced {worker} {[one[0].item() for one in inputs]}\n", end="", flush=True)


def run_workers(gpus: int) -> None:
    """Two processes, each with half of the GPUs."""
    identifier = UniqueId()
    call("ncclGetUniqueId", ctypes.byref(identifier))
    multiprocessing.spawn(reduce_in_worker, (bytes(identifier), gpus), nprocs=2)


RUNS = {
    "layers": run_layers,
    "parallel": run_parallel,
    "threads": run_threads,
    "collectives": run_collectives,
    "rank": run_rank,
    "workers": run_workers,
}

if __name__ == "__main__":
    RUNS[sys.argv[1]](int(sys.argv[2]))
