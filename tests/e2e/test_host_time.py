"""Host time: a program of tiny kernels is bound by its host, under every model that has one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from sim_server.cpu import load_cpu
from sim_server.gpu import load_gpu

pytestmark = pytest.mark.torch

LAUNCHES, ITERATIONS = 400, 8
PROGRAM: list[str | Path] = [PROGRAMS / "tiny_kernels.py", str(LAUNCHES), str(ITERATIONS)]


def run_with(phantora: Phantora, *options: str) -> Run:
    run = phantora.run(["--ranks", "1", *options], PROGRAM)
    assert run.exit_code == 0, run.errors
    return run


@pytest.fixture(scope="module")
def measured(phantora: Phantora) -> Run:
    return run_with(phantora, "--host-time", "measured")


@pytest.fixture(scope="module")
def recorded(phantora: Phantora, measured: Run) -> Run:
    return run_with(phantora, "--host-time", "recorded", "--host-gaps", str(measured.path))


def test_tiny_kernels_are_bound_by_their_launches(phantora: Phantora) -> None:
    """With `fixed`, an iteration lasts its launches and the call that waits, to the nanosecond."""
    run = run_with(phantora)
    costs = load_gpu("h100").host
    (duration_ns,) = {timing["duration_ns"] for timing in run.data.timings if timing["count"] > 1}
    launch_ns, sync_ns = int(costs["launch_ns"]), int(costs["sync_ns"])
    # The device is done with a kernel before the next one is launched, and with the last one
    # before the host has got into the call that waits for it.
    assert duration_ns < min(launch_ns, sync_ns)
    expected_ns = LAUNCHES * launch_ns + sync_ns
    iterations, parts = run.summary["iterations"], run.summary["breakdown_ns"]
    assert iterations["per_iteration_ns"] == [expected_ns] * (ITERATIONS - 1)
    assert parts["compute"] == LAUNCHES * duration_ns
    assert parts["host"] >= LAUNCHES * (launch_ns - duration_ns)
    assert parts["idle"] < sync_ns


def test_without_host_time_the_device_sets_the_pace(phantora: Phantora) -> None:
    """With `off`, an iteration lasts as long as its kernels."""
    run = run_with(phantora, "--host-time", "off")
    (duration_ns,) = {timing["duration_ns"] for timing in run.data.timings if timing["count"] > 1}
    assert run.summary["iterations"]["median_ns"] == LAUNCHES * duration_ns


def test_measured_launches_cost_at_least_the_driver(measured: Run) -> None:
    """PyTorch's own time comes on top, and is in the data file by kernel."""
    driver_ns = load_gpu("h100").host["driver_launch_ns"]
    assert measured.summary["host_time"] == "measured"
    assert measured.summary["iterations"]["median_ns"] > LAUNCHES * driver_ns
    counts = [
        entry["calls"]
        for entry in measured.data.host_gaps["measured"]
        if "vectorized_elementwise_kernel" in entry["key"]
    ]
    assert LAUNCHES * ITERATIONS in counts


def test_recorded_lasts_as_long_as_what_was_measured(measured: Run, recorded: Run) -> None:
    """Every key is known, and the sum over an iteration is the sum of its gaps."""
    gaps = {entry["key"]: entry["gap_ns"] for entry in measured.data.host_gaps["measured"]}
    (add_ns,) = [gap for key, gap in gaps.items() if "CUDAFunctorOnSelf_add" in key]
    costs = load_gpu("h100").host
    expected_ns = LAUNCHES * (add_ns + int(costs["driver_launch_ns"]))
    expected_ns += gaps["cudart cudaDeviceSynchronize"] + int(costs["driver_sync_ns"])
    (duration_ns,) = {t["duration_ns"] for t in recorded.data.timings if t["count"] > 1}
    iterations = recorded.summary["iterations"]
    assert max(iterations["per_iteration_ns"]) <= expected_ns + duration_ns
    assert min(iterations["per_iteration_ns"]) >= expected_ns
    assert recorded.summary["host_time"] == "recorded"
    assert recorded.summary["host_gaps"]["fixed"] == {"calls": 0, "share": 0.0}
    assert recorded.data.run["host_gaps"]["file"] == measured.path.name


def test_recorded_is_the_same_at_every_run(
    phantora: Phantora, measured: Run, recorded: Run
) -> None:
    """One digest; what was measured differs every time."""
    again = run_with(phantora, "--host-time", "recorded", "--host-gaps", str(measured.path))
    assert again.summary["digest"] == recorded.summary["digest"]
    assert again.data.host_gaps == recorded.data.host_gaps


CPU = """\
title = "of a test"
source = "of a test"
interval = [0.5, 2.0]
[works]
frame = 0
instruction = 0
dispatch = {dispatch}
backward = 0
node = 0
tensor = 0
view = 0
binding = 0
wrap = 0
rewrap = 0
[calls]
light = 0
launch = {launch}
library = 0
copy = 0
event = 0
sync = 0
alloc = 0
collective = 0
setup = 0
"""


def counted(phantora: Phantora, directory: Path, **times_ns: float) -> Run:
    """A run for a processor that takes time for dispatches and launches only."""
    cpu = directory / "cpu.toml"
    cpu.write_text(CPU.format(**times_ns))
    return run_with(phantora, "--host-time", "counted", "--cpu", str(cpu))


def test_counted_launches_cost_what_the_processor_takes(phantora: Phantora, tmp_path: Path) -> None:
    """An iteration lasts its operators, its launches and the driver; the host time of a call is
    rounded to nanoseconds by itself, so that equal work takes equal time.
    """
    run = counted(phantora, tmp_path, dispatch=5000, launch=700.4)
    costs = load_gpu("h100").host
    (duration_ns,) = {t["duration_ns"] for t in run.data.timings if t["count"] > 1}
    # One operator is dispatched for a launch; the wait ends with the last kernel.
    each_ns = 5000 + 700 + int(costs["driver_launch_ns"])
    end_ns = max(duration_ns, int(costs["driver_sync_ns"]))
    assert run.summary["iterations"]["median_ns"] == LAUNCHES * each_ns + end_ns
    works = run.data.host_gaps["counted"]["works"]
    assert LAUNCHES * (ITERATIONS - 1) <= works["dispatch"]["times"] < LAUNCHES * ITERATIONS
    assert works["frame"]["times"] > 0
    assert run.data.run["cpu"]["title"] == "of a test"
    stacks = run.summary["host_work"]["stacks"]
    assert [name.partition(":")[0] for name in stacks[0]["functions"]] == [str(PROGRAM[0])] * len(
        stacks[0]["functions"]
    )
    counted_work = run.data.host_gaps["counted"]
    charged = sum(one["charged_ns"] for one in (*works.values(), *counted_work["calls"].values()))
    told = sum(own_ns for _, _, own_ns in counted_work["stacks"]) + counted_work["elsewhere_ns"]
    assert told == pytest.approx(charged, abs=counted_work["calls"]["launch"]["times"])
    shares = [one["share"] for one in run.summary["host_work"]["functions"]]
    assert "tiny_kernels.py" in run.summary["host_work"]["functions"][0]["function"]
    assert shares[0] > 0.9


@pytest.mark.parametrize("garbage", [[], ["GARBAGE"]])
def test_tensors_are_given_to_python_where_the_program_gets_them(
    phantora: Phantora, garbage: list[str]
) -> None:
    """Not those that PyTorch hands to a kernel of ours, nor what ours gets from PyTorch's, also if
    garbage is collected meanwhile. A step of Adam on lists took twice as long.
    """
    program: list[str | Path] = [PROGRAMS / "list_operators.py", "8", *garbage]
    run = phantora.run(["--ranks", "1", "--host-time", "counted"], program)
    assert run.exit_code == 0, run.errors
    works = run.data.host_gaps["counted"]["works"]
    assert {kind: works[kind]["times"] for kind in ("wrap", "rewrap")} == json.loads(run.output)


@pytest.mark.parametrize("model", ["fixed", "counted"])
def test_what_shares_a_launch_is_one_collective(phantora: Phantora, model: str) -> None:
    """NCCL's sends and receives of one all-to-all take the host no longer than its one call does,
    but for what PyTorch does for each.
    """
    run = phantora.run(["--ranks", "4", "--host-time", model], [PROGRAMS / "exchanges.py"])
    assert run.exit_code == 0, run.errors
    found = json.loads(run.output)
    assert found["equal"] <= found["any"] < 1.5 * found["equal"]


def test_samples_time_and_count_each_iteration(phantora: Phantora) -> None:
    """Both are of the same work: counts are equal where the iterations are."""
    run = run_with(phantora, "--host-time", "measured", "--host-samples")
    samples = run.data.host_gaps["samples"]
    assert len(samples) == ITERATIONS
    assert {one["calls"]["launch"] for one in samples[1:]} == {LAUNCHES}
    assert len({str(one["works"]) for one in samples[2:]}) == 1
    assert min(one["spent_ns"] for one in samples) > 0


def test_the_times_of_this_processor_are_found(tmp_path: Path) -> None:
    """calibrate-host writes a profile that runs can take."""
    path = tmp_path / "mine.toml"
    command = [sys.executable, "-m", "phantora_py", "calibrate-host", "-o", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["ratios"]) == 31
    cpu = load_cpu(str(path))
    assert cpu.title == found["title"]
    # Hardly any processor runs Python so fast, and none so slowly.
    assert 1 <= cpu.works["frame"] + 10 * cpu.works["instruction"] < 10_000
    assert 200 < cpu.calls["launch"] < 100_000


@pytest.mark.parametrize("model", ["fixed", "measured"])
def test_steps_on_parameters_in_host_memory_are_told(phantora: Phantora, model: str) -> None:
    """Where the processor's time for them is in no figure; those of a few numbers are not."""
    run = phantora.run(["--ranks", "1", "--host-time", model], [PROGRAMS / "host_steps.py"])
    assert run.exit_code == 0, run.errors
    told = [] if model == "measured" else [{"rank": 0, "what": "host_step", "count": 3}]
    assert run.summary["trust"]["caveats"] == told
