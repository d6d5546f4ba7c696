"""Tools with which programs look at themselves: right in virtual time, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

PROGRAM = PROGRAMS / "measuring_tools.py"
# What an event adds to twenty products, or a launch to a thousand.
CLOSE = 0.02


def run(
    phantora: Phantora, kind: str, ranks: int = 1, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], Run]:
    """What the program said, and the run."""
    ended = phantora.run(["--ranks", str(ranks)], [PROGRAM, kind], environment or {})
    assert ended.exit_code == 0, ended.errors
    lines = [line.partition("{") for line in ended.output.splitlines() if "{" in line]
    return json.loads("{" + lines[0][2]), ended


@pytest.mark.parametrize("kind", ["events", "benchmark", "do_bench"])
def test_a_product_takes_as_long_as_its_kernel(phantora: Phantora, kind: str) -> None:
    """CUDA events, torch.utils.benchmark and triton.testing measure the simulated time."""
    said, ended = run(phantora, kind)
    (kernel,) = [one for one in ended.data.timings if one["class"] == "gemm"]
    assert said
    for name, measured_ms in said.items():
        assert measured_ms == pytest.approx(kernel["duration_ns"] / 1e6, rel=CLOSE), name


def test_an_execution_trace_has_the_operators(phantora: Phantora) -> None:
    """With the sizes of their tensors; the backward pass has one product."""
    said, _ = run(phantora, "observer")
    assert [[16, 64], [64, 32]] in [shapes[:2] for shapes in said["products"]]
    assert [[64, 16], [16, 32]] in [shapes[:2] for shapes in said["products"]]


@pytest.mark.parametrize("environment", [{}, {"TORCH_DIST_USE_NCCL2": "0"}])
def test_the_flight_recorder_has_virtual_times(
    phantora: Phantora, environment: dict[str, str]
) -> None:
    """Of each collective: half a virtual second apart, with sizes and the program's line."""
    said, _ = run(phantora, "flight_recorder", 2, {"TORCH_FR_BUFFER_SIZE": "100", **environment})
    assert [name.partition(":")[2] for name in said["names"]] == ["all_reduce"] * 3
    assert said["sizes"] == [[[1000]]] * 3
    assert said["apart_s"] == pytest.approx([0.5, 0.5], rel=1e-3)
    assert said["ends_s"] == pytest.approx(0.5, rel=1e-2)
    assert len(set(said["lines"])) == 1


def test_a_snapshot_of_memory_has_what_was_allocated(phantora: Phantora) -> None:
    """Allocations and frees in order, and what is left."""
    said, _ = run(phantora, "snapshot")
    actions = [action for action in said["actions"] if not action[0].startswith("segment")]
    assert actions == [
        ["alloc", 4 << 20],
        ["alloc", 16 << 20],
        ["free_requested", 4 << 20],
        ["free_completed", 4 << 20],
    ]
    assert said["allocated"] == [16 << 20]
    assert said["same"]


def test_sensors_are_refused_by_name(phantora: Phantora) -> None:
    """Memory and clocks are simulated; load, power and temperature are not, and a line says so."""
    pytest.importorskip("pynvml")
    said, ended = run(phantora, "sensors")
    assert said["used_bytes"] > said["kept_bytes"] == 1 << 30
    assert said["clock_mhz"] == 1980
    for name in ("utilization", "memory_usage", "power_draw", "temperature"):
        assert said[name] == "Not Supported", name
    for call in ("UtilizationRates", "PowerUsage"):
        line = (
            f"phantora: nvmlDeviceGet{call} of nvml answers not supported: neither load nor power"
        )
        assert ended.errors.count(line) == 1, ended.errors
