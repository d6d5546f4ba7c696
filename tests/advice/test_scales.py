"""Parts of a cluster that are scaled: all fields of each part, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from idle_recording import make_recording
from made_runs import make_run

from phantora_py.cli import main
from phantora_py.runs.scales import PARTS, scale_settings
from sim_server.cluster import Cluster, load_cluster
from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer, RatioTimer, Tier, Timing
from sim_server.settings import Settings

# A rate or a latency by its name, but for that of congestion control.
FIGURE = re.compile(r"(?<!convergence)(_bytes_per_s|latency_ns|_latency)$")


def product(m: int, n: int, k: int) -> dict[str, Any]:
    """The signature of one of bf16."""
    return {
        **{"kind": "gemm", "m": m, "n": n, "k": k, "batch": 1, "transa": "N", "transb": "N"},
        **{"a": "bf16", "b": "bf16", "d": "bf16", "compute": "f32"},
    }


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All figures of a description, by their names joined with points."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{name}.{key}" if name else key)
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from leaves(one, f"{name}.{number}")
    else:
        yield name, value


def clusters(tmp_path: Path) -> Iterator[Cluster]:
    """NVLink; PCIe with all that a host may say; two kinds of nodes and a slow NIC."""
    yield load_cluster("h100")
    pcie = tmp_path / "pcie.toml"
    pcie.write_text(
        'base = "h100"\ngpu_links = "pcie"\n'
        '[host]\ngpus_per_switch = 2\nuplink_bandwidth = "50 GB/s"\nbandwidth = "90 GB/s"\n'
    )
    yield load_cluster(str(pcie))


def test_every_rate_and_latency_belongs_to_one_part(tmp_path: Path) -> None:
    """Whatever a cluster may say; what GPUs of a node reach each other by is `nvlink`."""
    belongs: dict[str, set[str]] = {}
    for cluster in clusters(tmp_path):
        settings = Settings(2, 1, 2, cluster, load_gpu("h100"))
        before = dict(leaves(cluster.to_dict()))
        for part in PARTS:
            after = dict(leaves(scale_settings(settings, {part: 2.0}).cluster.to_dict()))
            changed = {name for name in before if after[name] != before[name]}
            for name in changed:
                assert after[name] == pytest.approx(2 * before[name]), name
                belongs.setdefault(name, set()).add(part)
        figures = (name for name, value in before.items() if FIGURE.search(name) and value)
        for name in figures:
            belongs.setdefault(name, set())
    assert {name: parts for name, parts in belongs.items() if len(parts) != 1} == {}
    assert belongs["nic.pcie_bandwidth_bytes_per_s"] == {"nvlink"}  # of the PCIe cluster
    assert belongs["nic.bandwidth_bytes_per_s"] == {"nic"}


class TwiceTheModels:
    """As if everything had been measured, and took twice the modelled time."""

    def __init__(self, models: KernelTimer) -> None:
        self._models = models

    def time(self, signature: Mapping[str, Any]) -> Timing:
        timing = self._models.time(signature)
        return replace(timing, duration_ns=2 * timing.duration_ns, tier=Tier.MEASURED)


def test_measured_times_are_scaled_by_what_models_say() -> None:
    """And not taken from models; what does not change stays measured."""
    gpu = load_gpu("h100")
    settings = Settings(1, 1, 1, load_cluster("h100"), gpu)
    faster = scale_settings(settings, {"memory": 1.5}).gpu
    assert faster.name == gpu.name
    models = KernelTimer(gpu), KernelTimer(faster)
    timer = RatioTimer(TwiceTheModels(models[0]), *models)
    bound_by_memory, bound_by_products = product(4096, 4096, 64), product(8192, 8192, 8192)
    timing = timer.time(bound_by_memory)
    assert timing.duration_ns == pytest.approx(
        2 * models[1].time(bound_by_memory).duration_ns, abs=2
    )
    assert timing.duration_ns < 2 * models[0].time(bound_by_memory).duration_ns
    assert timing.tier is Tier.ASSUMED
    same = RatioTimer(TwiceTheModels(models[0]), models[0], models[0]).time(bound_by_products)
    assert same.tier is Tier.MEASURED


def error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said about a mistake; exit code 2."""
    assert main(["report", *words]) == 2
    return " ".join(capsys.readouterr().err.split())


def test_a_run_without_iterations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Has nothing that could be shorter."""
    path = tmp_path / "a.phr"
    make_recording(path)
    assert "has no iteration that takes time" in error(capsys, str(path), "--sensitivity")


def test_another_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of kernels does not show it."""
    data = make_run(tmp_path / "a.phr", [(), ()])
    said = error(capsys, str(data.path), "--sensitivity", "--kernels")
    assert "--sensitivity goes with the report itself" in said
