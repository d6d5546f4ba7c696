"""torch.distributed.rpc runs with tensors of the host, and is refused with those of a GPU."""

from __future__ import annotations

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

PROGRAM = """
import os, sys, torch
import torch.distributed.rpc as rpc
rank = int(os.environ["RANK"])
options = rpc.TensorPipeRpcBackendOptions()
if sys.argv[1] == "map":
    options.set_device_map(f"w{1 - rank}", {rank: 1 - rank})
rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
if rank == 0:
    print(rpc.rpc_sync("w1", torch.add, args=(torch.ones(2), 1)).tolist())
rpc.shutdown()
"""


def call(phantora: Phantora, what: str) -> Run:
    return phantora.run(["--ranks", "2"], ["-c", PROGRAM, what])


def test_calls_with_tensors_of_the_host(phantora: Phantora) -> None:
    """They are answered, and all ranks end well."""
    run = call(phantora, "host")
    assert run.exit_code == 0, run.errors
    assert run.output.endswith("[2.0, 2.0]\n")


def test_device_maps_are_refused_by_name(phantora: Phantora) -> None:
    """At once, and not by a time-out."""
    run = call(phantora, "map")
    assert run.exit_code == 4
    assert "w0 has a device map, and how RPC passes tensors from GPU to GPU" in run.errors


WORKERS = """
import os, time, torch
import torch.distributed.rpc as rpc
from torch import multiprocessing

def slow():
    ones = torch.ones(2, device="cuda")
    end = time.process_time() + 4
    while time.process_time() < end:
        pass
    return (ones + 1).cpu()

def work(worker):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29519"
    if worker == 1:
        time.sleep(3)
    if worker == 0:
        torch.zeros(1, device="cuda")
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=2)
    rpc.init_rpc(f"w{worker}", rank=worker, world_size=2, rpc_backend_options=options)
    if worker == 1:
        print(rpc.rpc_sync("w0", slow).tolist())
    rpc.shutdown()

if __name__ == "__main__":
    multiprocessing.spawn(work, nprocs=2)
"""


def test_a_caller_that_is_no_rank(phantora: Phantora) -> None:
    """It comes late by the real clock, for which the rank's store waits, and what it calls takes
    longer to simulate than its time-out.
    """
    program = phantora.directory / "workers.py"
    program.write_text(WORKERS)
    run = phantora.run(["--gpus", "1"], [program])
    assert (run.exit_code, "[2.0, 2.0]" in run.output) == (0, True), run.errors


def test_a_pipeline_of_workers(phantora: Phantora) -> None:
    """A thread of a worker waits for the GPU, and others for their turn after it, while nobody else
    waits for the simulation.
    """
    run = phantora.run(["--gpus", "2"], [PROGRAMS / "remote_stages.py"])
    assert run.exit_code == 0, run.errors
    assert "1 micro-batches: trained" in run.output
    assert "4 micro-batches: trained" in run.output
