"""The timing of cuDNN's recurrent networks."""

from __future__ import annotations

from typing import Any

import pytest

from sim_server.gpu import load_gpu, profile_names
from sim_server.kernels import KernelTimer, Tier

PASSES = ("forward", "backward_data", "backward_weights")


def _pass(operation: str, **more: Any) -> dict[str, Any]:
    """Of one layer of 1024, 100 steps of 64 sequences."""
    sizes = {"layers": 1, "directions": 1, "seqlen": 100, "batch": 64, "tokens": 6400}
    sizes |= {"input": 1024, "hidden": 1024, "projection": 0}
    flags = {"persistent": 0, "tensor_cores": 1, "dropout": 0}
    call = {"kind": "library", "library": "cudnn", "operation": operation, "type": "f16"}
    return {**call, **sizes, **flags, **more}


def _flops(gates: int) -> float:
    """Of any one pass: each multiplies as many numbers."""
    return 2 * 6400 * gates * 1024 * (1024 + 1024)


@pytest.mark.parametrize("gpu", profile_names())
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize(("cell", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1)])
def test_passes_stay_below_the_peak(
    timers: dict[str, KernelTimer], gpu: str, direction: str, cell: str, gates: int
) -> None:
    """No pass multiplies faster than the tensor cores can."""
    timing = timers[gpu].time(_pass(f"{cell}_{direction}"))
    # Measured products on an RTX 4090 reach its whole nominal rate.
    most = 1.01 if gpu == "rtx4090" else 0.8
    assert _flops(gates) / timing.duration_ns < most * load_gpu(gpu).peak_flops_per_ns("f16")
    assert (timing.kernel_class, timing.tier) == ("recurrent", Tier.ASSUMED)


@pytest.mark.parametrize("direction", ["forward", "backward_data"])
def test_steps_wait_for_each_other(timers: dict[str, KernelTimer], direction: str) -> None:
    """A step is a product and the gates, each with a kernel's floor; weights have no steps."""
    time, floor_ns = timers["h100"].time, load_gpu("h100").execution["kernel_floor_ns"]
    operation = f"lstm_{direction}"
    least_ns = 2 * 100 * floor_ns
    small = {"batch": 1, "tokens": 100, "input": 8, "hidden": 8}
    assert time(_pass(operation, **small)).duration_ns > least_ns
    assert time(_pass("lstm_backward_weights", **small)).duration_ns < least_ns
    # As many tokens in half as many steps take less time.
    shorter = time(_pass(operation, seqlen=50, batch=128)).duration_ns
    assert shorter < 0.75 * time(_pass(operation)).duration_ns


MEASURED_US = {
    ("lstm", "bf16", 128, 64, 512, 1): (1014, 1232),
    ("gru", "bf16", 50, 256, 1024, 2): (1491, 1890),
    ("lstm", "f32", 50, 256, 1024, 2): (3504, 5069),
    ("gru", "f32", 128, 64, 512, 1): (1227, 2463),
    ("lstm", "bf16", 35, 20, 650, 2): (874, 1346),  # rows that vectors do not divide
    ("gru", "f32", 35, 20, 650, 2): (1094, 1768),
}
"""Of cuDNN's kernels and the gaps between them on an H100: benchmarks/real_gpu. By cell, type,
steps, sequences, hidden numbers and layers: forward, and back to the data."""


@pytest.mark.parametrize("network", MEASURED_US)
def test_measured_networks(
    timers: dict[str, KernelTimer], network: tuple[str, str, int, int, int, int]
) -> None:
    """Within a fifth."""
    cell, number, steps, sequences, hidden, layers = network
    sizes = {"seqlen": steps, "batch": sequences, "tokens": steps * sequences, "layers": layers}
    sizes |= {"input": hidden, "hidden": hidden}
    for direction, measured_us in zip(PASSES, MEASURED_US[network], strict=False):
        timing = timers["h100"].time(_pass(f"{cell}_{direction}", type=number, **sizes))
        assert timing.duration_ns / 1000 == pytest.approx(measured_us, rel=0.2), direction


@pytest.mark.parametrize("direction", PASSES)
def test_layers_and_directions(timers: dict[str, KernelTimer], direction: str) -> None:
    """Equal layers take equal time, one after the other; directions share the GPU."""
    time, operation = timers["h100"].time, f"gru_{direction}"
    one = time(_pass(operation)).duration_ns
    assert time(_pass(operation, layers=3)).duration_ns == pytest.approx(3 * one, abs=3)
    both = time(_pass(operation, directions=2)).duration_ns
    assert one < both < 2 * one + 1
    # Beyond the first layer the input is the output of both directions.
    assert time(_pass(operation, directions=2, layers=2)).duration_ns > 2 * both


def test_arithmetic(timers: dict[str, KernelTimer]) -> None:
    """Single precision is slower, and more so without tensor cores; persistent kernels save."""
    time = timers["h100"].time
    for direction in PASSES:
        fast = time(_pass(f"lstm_{direction}")).duration_ns
        tf32 = time(_pass(f"lstm_{direction}", type="f32")).duration_ns
        plain = time(_pass(f"lstm_{direction}", type="f32", tensor_cores=0)).duration_ns
        assert fast < tf32 < plain
    for direction in ("forward", "backward_data"):
        persistent = time(_pass(f"lstm_{direction}", persistent=1)).duration_ns
        assert 100_000 < persistent < time(_pass(f"lstm_{direction}")).duration_ns


@pytest.mark.parametrize("direction", PASSES)
def test_projections_and_short_sequences(timers: dict[str, KernelTimer], direction: str) -> None:
    """A projection is a product more and a smaller hidden state; fewer tokens take less time."""
    time, operation = timers["h100"].time, f"lstm_{direction}"
    whole = time(_pass(operation)).duration_ns
    assert time(_pass(operation, projection=128)).duration_ns != whole
    assert time(_pass(operation, tokens=3200)).duration_ns < whole
