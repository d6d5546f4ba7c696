"""The GPU executor with a simulated GPU for the real one: what a run launches, another one under
phantora launches again and times. So measured times are the models' own.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.launch.libraries import shim_directory
from phantora_py.profile.driver import DRIVER
from phantora_py.profile.lock import GpuLock
from phantora_py.profile.suite import attention, linear
from phantora_py.profile.suite import product as suite_product
from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.processes.executor import Executor
from sim_server.settings import Settings
from sim_server.timing_cache import Measurement, TimingCache
from sim_server.timings import model_timer

pytestmark = pytest.mark.torch
MODELS = model_timer(Settings(1, 1, 1, load_cluster("h100"), load_gpu("h100")))
COMMAND = [sys.executable, str(PROGRAMS / "simulated_executor.py")]
EXECUTOR = shlex.join(COMMAND)


def measure(phantora: Phantora, folder: Path, program: list[str | Path], *options: str) -> Run:
    gpu = ["--gpu", "--cache", str(folder / "cache"), "--executor", EXECUTOR]
    run = phantora.run(["--ranks", "1", *gpu, *options], program)
    assert run.exit_code == 0, run.errors
    return run


def measured(folder: Path) -> list[Measurement]:
    with TimingCache(folder / "cache") as cache:
        return [one for _, one in cache.measurements()]


def wrong(measurements: list[Measurement]) -> list[tuple[str, float, float]]:
    """Those that are not what the models say: signature, model, median. An executor that is
    simulated loads machine code, without what Triton's own code tells.
    """
    found = []
    for one in measurements:
        signature = {name: of for name, of in one.signature.items() if name[:6] != "block_"}
        model_ns = float(MODELS.time(signature).duration_ns)
        median_ns = sorted(one.warm_ns)[len(one.warm_ns) // 2]
        if median_ns != pytest.approx(model_ns, rel=0.001) or min(one.cold_ns) < 0.99 * model_ns:
            found.append((str(one.signature)[:200], model_ns, median_ns))
    return found


def recurrent(cell: str, **changes: Any) -> list[Mapping[str, Any]]:
    """The passes over a network of one layer of 256 from 128, with 20 steps of 8 sequences."""
    sizes = {"layers": 1, "directions": 1, "seqlen": 20, "batch": 8, "tokens": 160}
    sizes |= {"input": 128, "hidden": 256, "projection": 0}
    flags = {"persistent": 0, "tensor_cores": 1, "dropout": 0}
    network = {"kind": "library", "library": "cudnn", "type": "f32", **sizes, **flags, **changes}
    directions = ("forward", "backward_data", "backward_weights")
    return [{**network, "operation": f"{cell}_{direction}"} for direction in directions]


def test_passes_over_recurrent_networks_come_to_what_was_asked_for() -> None:
    """By cell, type and algorithm, in both directions, projected, dropped and packed; and the loss
    that often follows, with labels on the host and on the GPU.
    """
    loss: dict[str, Any] = {"seqlen": 50, "batch": 4, "channels": 32, "bytes": 2 * 4 * 50 * 4 * 32}
    loss |= {"kind": "library", "library": "cudnn", "operation": "ctc_loss", "type": "f32"}
    asked: list[Mapping[str, Any]] = [
        *recurrent("lstm"),
        *recurrent("lstm", tensor_cores=0),
        *recurrent("lstm", type="f16", persistent=1),
        *recurrent("lstm", type="bf16", layers=2, projection=32),
        *recurrent("gru", type="f64", tensor_cores=0, layers=2, directions=2),
        *recurrent("gru", layers=2, dropout=1, batch=3, tokens=33),
        *recurrent("rnn_tanh", hidden=64, persistent=1),
        *recurrent("rnn_relu", batch=1, tokens=20, persistent=1),
        *({**loss, "labels": labels} for labels in (12, 255)),
    ]
    with Executor(COMMAND, "a test") as executor:
        assert wrong([executor.measure(one) for one in asked]) == []


def test_library_calls_come_to_what_was_asked_for() -> None:
    """Every kind that the suite has, batches and sums."""
    batch = {**suite_product(64, 96, 32, "NT", "bf16"), "batch": 6}
    batch["strides"] = [64 * 32, 32 * 96, 64 * 96]
    added = {**suite_product(64, 96, 32, "NN", "f32"), "beta": True}
    asked: list[Mapping[str, Any]] = [
        *linear(256, 128, 384, "bf16"),
        *linear(256, 128, 384, "f32"),
        *attention(2, 4, 512, 64),
        *attention(1, 2, 1024, 128),
        *(batch, added),
    ]
    with Executor(COMMAND, "a test") as executor:
        assert wrong([executor.measure(one) for one in asked]) == []


def test_operations_of_every_class_are_measured(phantora: Phantora, tmp_path: Path) -> None:
    """Kernels by name are launched again with their arguments; what is refused is known to be."""
    run = measure(phantora, tmp_path, [PROGRAMS / "many_operations.py"])
    found = run.data.measuring
    assert found is not None
    assert found["restarts"] == 0
    reasons = ("indices whose values are not known", "cleared before each launch")
    assert {row["class"] for row in found["refused"]} <= {"embedding", "reduction", "sort"}
    assert all(any(one in row["reason"] for one in reasons) for row in found["refused"])
    measurements = measured(tmp_path)
    assert found["measured"] == len(measurements) > 200
    # The call for a grouped product prepares its groups with a kernel of its own.
    assert [one for one in wrong(measurements) if "grouped" not in one[0]] == []
    classes = {MODELS.time(one.signature).kernel_class for one in measurements}
    assert classes >= {
        *("gemm", "convolution", "attention", "norm", "loss", "optimizer", "embedding"),
        *("elementwise", "reduction", "random", "sort", "concatenate", "recurrent"),
    }


def test_kernels_that_a_program_compiles_are_measured(phantora: Phantora, tmp_path: Path) -> None:
    """Triton's and NVRTC's, from the code objects that the rank loaded."""
    measure(phantora, tmp_path, [PROGRAMS / "own_kernels.py"])
    measurements = measured(tmp_path)
    assert wrong(measurements) == []
    compiled = {one.signature["name"] for one in measurements if "module" in one.signature}
    assert len(compiled) == 2
    assert "scale" in compiled


def test_executors_take_turns() -> None:
    """One tells that it waits as long as somebody else has the driver's library locked."""
    lock = GpuLock(str(shim_directory() / DRIVER))
    question = json.dumps({"signature": next(iter(linear(256, 128, 384, "bf16")))})
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, text=True) as executor:
        assert executor.stdin is not None
        assert executor.stdout is not None
        assert "gpu" in json.loads(executor.stdout.readline())
        with lock.held(lambda: None):
            print(question, file=executor.stdin, flush=True)
            assert "waiting" in json.loads(executor.stdout.readline())
        answers = (json.loads(line) for line in executor.stdout)
        assert "warm_ns" in next(answer for answer in answers if "waiting" not in answer)
        executor.stdin.close()
    assert executor.returncode == 0
