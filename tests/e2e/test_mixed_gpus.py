"""Nodes with different GPUs under one DDP training."""

from __future__ import annotations

from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.runs.resimulate import resimulate
from phantora_py.runs.what_if import WhatIf

pytestmark = pytest.mark.torch

MIXED = """
base = "h100"
[[node_groups]]
nodes = 1
[[node_groups]]
base = "a100"
nodes = 1
gpus_per_node = 4
nic = { per_node = 4 }
"""


@pytest.fixture(scope="module")
def run(phantora: Phantora, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One rank on an H100, one on an A100."""
    cluster = tmp_path_factory.mktemp("mixed") / "mixed.toml"
    cluster.write_text(MIXED, encoding="utf-8")
    options = ["--cluster", str(cluster), "--nodes", "2", "--gpus-per-node", "1"]
    return phantora.run(options, [PROGRAMS / "mixed_gpus.py"])


def test_every_rank_sees_its_own_gpu(run: Run) -> None:
    """Name, multiprocessors, capability and memory are those of the rank's node."""
    assert run.exit_code == 0, run.errors
    assert (
        "rank 0: NVIDIA H100 80GB HBM3, 132 multiprocessors, capability 9.0, 85029027840 bytes, "
        "1 of them"
    ) in run.output
    assert (
        "rank 1: NVIDIA A100-SXM4-80GB, 108 multiprocessors, capability 8.0, 85095088128 bytes, "
        "1 of them"
    ) in run.output
    capacities = [one["capacity_bytes"] for one in run.data.memory["per_rank"]]
    assert capacities == [85029027840, 85095088128]


def test_the_slower_gpu_holds_the_other_up(run: Run) -> None:
    """The same product takes longer on the A100; every sum of gradients waits for its rank."""
    products: dict[str, dict[str, int]] = {}
    for timing in run.data.timings:
        if timing["class"] == "gemm":
            gpu = timing.get("gpu", "h100")
            products.setdefault(timing["name"], {})[gpu] = timing["duration_ns"]
    assert products
    for times_ns in products.values():
        assert times_ns["a100"] > 2 * times_ns["h100"]
    sums = [one for one in run.data.operations if one["kind"] == "all_reduce"]
    assert sums
    for one in sums:
        on_h100_ns, on_a100_ns = one["arrivals_ns"]
        assert on_h100_ns < on_a100_ns


def test_it_can_be_simulated_again(run: Run, tmp_path: Path) -> None:
    """A resimulation has the same history: the recording knows both GPUs."""
    again = tmp_path / "again.phr"
    resimulate(run.data, WhatIf(), again)
    assert Run(0, "", "", again, 0.0).data.run["digest"] == run.data.run["digest"]
