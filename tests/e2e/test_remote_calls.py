"""torch.distributed.rpc runs with tensors of the host, and is refused with those of a GPU."""

from __future__ import annotations

import pytest
from phantora_runs import Phantora, Run

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
