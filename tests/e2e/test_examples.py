"""The examples run unchanged on the stock wheel, and the report says what they said."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from phantora_runs import EXAMPLES, Phantora, Run

from sim_server.records import NcclOpKind

pytestmark = pytest.mark.torch

STEP = re.compile(r"^step (\d+): loss ([\d.]+), ([\d.]+) s, ([\d,]+) tokens/s", re.MULTILINE)
CLUSTER = """\
base = "h100"
name = "two-nodes"
gpus_per_node = 4

[nic]
per_node = 1
bandwidth = "100 Gb/s"
"""


def check_training(run: Run, ranks: int, steps: int, host_time: str = "fixed") -> None:
    """What holds of every training run."""
    assert run.exit_code == 0, run.errors
    said = STEP.findall(run.output)
    assert [int(number) for number, *_ in said] == list(range(steps))
    summary = run.summary
    iterations, parts, memory = (summary[key] for key in ("iterations", "breakdown_ns", "memory"))
    assert (summary["ranks"], summary["exit_code"], summary["host_time"]) == (ranks, 0, host_time)
    assert (iterations["detected_by"], iterations["count"]) == ("optimizer", steps - 1)
    # The program's own clock: it ends its steps at loss.item(), a little after the device has.
    timed_ns = [float(seconds) * 1e9 for _, _, seconds, _ in said[1:]]
    assert iterations["per_iteration_ns"] == pytest.approx(timed_ns, rel=0.02)
    mean_ns = np.mean(iterations["per_iteration_ns"])
    whole_ns = sum(
        parts[key]
        for key in ("compute", "exposed_communication", "waiting_for_ranks", "host", "idle")
    )
    assert whole_ns == pytest.approx(mean_ns, abs=2)
    assert 0 < parts["exposed_communication"] <= parts["communication"]
    assert 0 < parts["compute"] < mean_ns
    assert memory["fits"]
    for allocated, reserved, device in zip(
        *(memory[f"peak_{kind}_bytes"] for kind in ("allocated", "reserved", "device")), strict=True
    ):
        assert 1 << 30 < allocated <= reserved < device < memory["capacity_bytes"]
    trust = summary["trust"]
    assert sum(trust["gpu_time_share"].values()) == pytest.approx(1)
    assert trust["calls"]["unsupported"] == 0
    assert trust["calls"]["modelled"] > 1000 * ranks
    # loss.item() at every step: nothing computes a loss, and the report says so.
    (site,) = {read["site"] for read in trust["synthetic_read_sites"]}
    path, place = site.split(":")
    line = Path(path).read_text().splitlines()[int(place.split()[0]) - 1]
    assert "loss.item()" in line


def all_reduced_bytes(run: Run, iterations: int) -> float:
    """Per iteration, without what is only for control."""
    reduces = [
        one for one in run.data.operations if one["kind"] == NcclOpKind.ALL_REDUCE.name.lower()
    ]
    return sum(int(one["bytes"]) for one in reduces if one["bytes"] > 1 << 16) / iterations


def test_ddp(ddp: Run) -> None:
    """Gradients of all parameters are reduced once an iteration, despite accumulation."""
    check_training(ddp, ranks=2, steps=4)
    width, vocabulary, layers, sequence = 768, 50304, 2, 1024
    block = 12 * width**2 + 13 * width
    parameters = layers * block + (2 * vocabulary + sequence + 2) * width
    assert all_reduced_bytes(ddp, 4) == 4 * parameters


def test_ddp_hides_its_all_reduces(phantora: Phantora, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the backward pass, where PyTorch's backend lets them run beside it: the default one of
    2.15 has the pass wait for each. The last bucket has nothing to hide behind.
    """
    monkeypatch.setenv("TORCH_DIST_USE_NCCL2", "0")
    model = ["--layers", "4", "--steps", "3"]
    run = phantora.run(["--ranks", "2"], [EXAMPLES / "train_gpt_ddp.py", *model])
    assert run.exit_code == 0, run.errors
    parts = run.summary["breakdown_ns"]
    assert parts["exposed_communication"] < 0.8 * parts["communication"]


def test_equal_runs_are_equal(ddp: Run, ddp_again: Run) -> None:
    """One digest, the same iterations to the nanosecond: nothing depends on the machine."""
    assert ddp_again.summary["digest"] == ddp.summary["digest"]
    assert ddp_again.summary["iterations"] == ddp.summary["iterations"]
    assert ddp_again.summary["memory"] == ddp.summary["memory"]
    assert np.array_equal(ddp_again.data.spans, ddp.data.spans)
    assert ddp_again.data.operations == ddp.data.operations
    assert ddp_again.data.markers == ddp.data.markers
    # A reading leads the host clock by up to half a microsecond (csrc/shim/libc/virtual_clock.cc).
    assert printed_numbers(ddp_again) == pytest.approx(printed_numbers(ddp), rel=1e-4)


def printed_numbers(run: Run) -> list[float]:
    """All numbers in what the program said."""
    return [float(text.replace(",", "")) for text in re.findall(r"\d[\d,.]*\d|\d", run.output)]


def test_fsdp(fsdp: Run, ddp: Run) -> None:
    """Through torchrun. Parameters are gathered and gradients scattered, and take less memory."""
    check_training(fsdp, ranks=2, steps=4)
    kinds = {one["kind"] for one in fsdp.data.operations}
    assert {"all_gather", "reduce_scatter"} <= kinds
    reserved = [run.summary["memory"]["peak_reserved_bytes"][0] for run in (fsdp, ddp)]
    assert reserved[0] < reserved[1]
    said_gib = float(re.findall(r"([\d.]+) GiB reserved", fsdp.output)[-1])
    assert reserved[0] / 2**30 == pytest.approx(said_gib, abs=0.01)


def test_collectives(phantora: Phantora) -> None:
    """Every collective of torch.distributed gives on NCCL what it gives on gloo."""
    run = phantora.run(["--ranks", "4"], [EXAMPLES / "check_collectives.py"])
    assert run.exit_code == 0, run.errors
    # Some releases of PyTorch have gloo say something before.
    assert run.output.splitlines()[-1].endswith("30 operations agree on 4 ranks")
    # Not even the padding of objects, which nobody looks at.
    assert run.data.synthetic_reads == []


def test_ddp_on_eight_ranks(phantora: Phantora, ddp: Run) -> None:
    """More ranks exchange the same gradients, and each has as much to compute as before. Host time
    is counted where nothing else is said.
    """
    options = ["--layers", "2", "--steps", "3", "--batch", "2"]
    default = ["--host-time", "auto"]
    run = phantora.run(["--ranks", "8", *default], [EXAMPLES / "train_gpt_ddp.py", *options])
    check_training(run, ranks=8, steps=3, host_time="counted")
    assert all_reduced_bytes(run, 3) == all_reduced_bytes(ddp, 4)
    compute_ns = [one.summary["breakdown_ns"]["compute"] for one in (run, ddp)]
    assert compute_ns[0] == pytest.approx(compute_ns[1], rel=0.05)


def test_two_nodes_of_a_user_s_cluster(phantora: Phantora, ddp: Run) -> None:
    """Two nodes of two GPUs; what was fast within a node is slow over a thin network."""
    cluster = phantora.directory / "cluster.toml"
    cluster.write_text(CLUSTER)
    run = phantora.run(
        [
            *("--cluster", str(cluster), "--nodes", "2", "--gpus-per-node", "2"),
            *("--host-time", "auto"),
        ],
        [
            *("-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"),
            *(EXAMPLES / "train_gpt_ddp.py", "--layers", "2", "--steps", "3", "--batch", "2"),
        ],
    )
    check_training(run, ranks=4, steps=3, host_time="counted")
    assert (run.summary["nodes"], run.summary["cluster"]) == (2, "two-nodes")
    spent_ns = [one.summary["breakdown_ns"]["communication"] for one in (run, ddp)]
    assert spent_ns[0] > 3 * spent_ns[1]
