"""What the program's own work costs in virtual time, by host-time model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_run import FakeRun
from stand_in_agent import write_settings

from phantora_py.launch.libraries import preload_list, shim_directory

STATISTICS = 4  # ph::RecordKind
DRIVER_NS = 600
FIXED_NS = 1000
# Calls of the CUDA runtime by hand: two of class sync, one that only asks.
CALLS = """
cudart = ctypes.CDLL("libcudart.so.13")
def calls():
    cudart.cudaGetDevice(ctypes.byref(ctypes.c_int()))
    cudart.cudaDeviceSynchronize()
    cudart.cudaStreamSynchronize(None)
calls()
"""
BURN = """
def burn(cpu_s):
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass
"""


class ModelledRun(FakeRun):
    """A stand-in run with a host-time model, under all of our libraries."""

    def __init__(self, directory: Path, model: str) -> None:
        super().__init__(directory)
        write_settings(directory, ranks=1, changes={"host_time": model})

    @property
    def environment(self) -> dict[str, str]:
        preload = ":".join(map(str, preload_list(shim_directory())))
        return {**super().environment, "LD_PRELOAD": preload}

    def statistics(self, kind: str) -> list[dict[str, object]]:
        """Statistics of one kind that the last start told."""
        told = [json.loads(one.payload) for one in self.records() if one.kind == STATISTICS]
        return [one for one in told if one["kind"] == kind]


def test_measured_charges_between_clock_reads(tmp_path: Path) -> None:
    """What a thread computes between two reads of a clock is the time between them."""
    output = ModelledRun(tmp_path, "measured").python(f"""{BURN}
time.perf_counter()
cpu, start = time.thread_time_ns(), time.perf_counter_ns()
burn(0.3)
cpu, took = time.thread_time_ns() - cpu, time.perf_counter_ns() - start
print(cpu, took)
""")
    cpu_ns, took_ns = map(int, output.split())
    assert cpu_ns >= 300_000_000
    assert took_ns == pytest.approx(cpu_ns, rel=0.01)


def test_measured_follows_the_factor(tmp_path: Path) -> None:
    """host.cpu_factor says how much slower the simulated host is."""
    run = ModelledRun(tmp_path, "measured")
    write_settings(tmp_path, 1, {"host_time": "measured", "host.cpu_factor": "2.5"})
    output = run.python(f"""{BURN}
time.perf_counter()
cpu, start = time.thread_time_ns(), time.perf_counter_ns()
burn(0.2)
print(time.thread_time_ns() - cpu, time.perf_counter_ns() - start)
""")
    cpu_ns, took_ns = map(int, output.split())
    assert took_ns == pytest.approx(2.5 * cpu_ns, rel=0.01)


def test_our_own_code_takes_no_measured_time(tmp_path: Path) -> None:
    """Between ph_enter and ph_leave, nested or not, nothing is charged."""
    output = ModelledRun(tmp_path, "measured").python(f"""{BURN}
start = time.perf_counter_ns()
shim.ph_enter()
burn(0.1)
shim.ph_enter()
time.monotonic()
shim.ph_leave()
burn(0.1)
shim.ph_leave()
print(time.perf_counter_ns() - start)
""")
    assert int(output) < 20_000_000


def test_measured_calls_cost_computing_and_driver(tmp_path: Path) -> None:
    """A call adds what the vendor's code would take, which ours does not show."""
    output = ModelledRun(tmp_path, "measured").python(f"""{CALLS}{BURN}
time.perf_counter()
h, cpu = host_clock_ns(), time.thread_time_ns()
for _ in range(100):
    calls()
print(time.thread_time_ns() - cpu, host_clock_ns() - h)
""")
    cpu_ns, moved_ns = map(int, output.split())
    assert 200 * DRIVER_NS < moved_ns <= 200 * DRIVER_NS + cpu_ns


def test_measured_tells_its_gaps_by_call(tmp_path: Path) -> None:
    """What is computed before calls without a key counts for the next one that has one."""
    run = ModelledRun(tmp_path, "measured")
    run.python(f"""{CALLS}{BURN}
for iteration in range(5):
    shim.ph_marker(2, b"iteration")
    burn(0.02)
    time.monotonic()
    calls()
shim.ph_marker(2, b"iteration")
shim.ph_exit(0)
""")
    (told,) = run.statistics("host_gaps")
    gaps = {key: (calls, gap_ns) for key, calls, gap_ns in told["gaps"]}  # type: ignore[attr-defined]
    calls, before_device_ns = gaps["cudart cudaDeviceSynchronize"]
    assert calls == 6
    assert 20_000_000 <= before_device_ns < 40_000_000
    assert gaps["cudart cudaStreamSynchronize"][1] < 10_000_000
    assert "cudart cudaGetDevice" not in gaps


def test_a_gap_is_the_median_of_iterations_means(tmp_path: Path) -> None:
    """Twice as much in half of an iteration's calls counts; one slow iteration does not."""
    run = ModelledRun(tmp_path, "measured")
    run.python(f"""{CALLS}{BURN}
for iteration in range(7):
    shim.ph_marker(2, b"iteration")
    burn(0.5 if iteration == 3 else 0.03)
    cudart.cudaDeviceSynchronize()
    burn(0.01)
    cudart.cudaDeviceSynchronize()
shim.ph_marker(2, b"iteration")
shim.ph_exit(0)
""")
    (told,) = run.statistics("host_gaps")
    gaps = {key: gap_ns for key, _, gap_ns in told["gaps"]}  # type: ignore[attr-defined]
    assert 20_000_000 <= gaps["cudart cudaDeviceSynchronize"] < 30_000_000


def test_recorded_charges_gaps_and_driver_exactly(tmp_path: Path) -> None:
    """A known call costs its gap and the driver's part; an unknown one what the table says."""
    run = ModelledRun(tmp_path, "recorded")
    (tmp_path / "host-gaps").write_text("7000 cudart cudaDeviceSynchronize\n")
    output = run.python(f"""{CALLS}{BURN}
h = host_clock_ns()
burn(0.05)
for _ in range(10):
    calls()
print(host_clock_ns() - h)
shim.ph_exit(0)
""")
    assert int(output) == 10 * (7000 + DRIVER_NS + FIXED_NS)
    (told,) = run.statistics("replayed_gaps")
    assert told["call"] == [11, 11 * 7000]
    assert told["fixed"] == [11, 11 * (FIXED_NS - DRIVER_NS)]


@pytest.mark.parametrize("model", ["fixed", "off"])
def test_without_measuring_computing_is_free(tmp_path: Path, model: str) -> None:
    """Only calls cost time, or nothing does."""
    output = ModelledRun(tmp_path, model).python(f"""{CALLS}{BURN}
h = host_clock_ns()
burn(0.05)
for _ in range(10):
    calls()
print(host_clock_ns() - h)
""")
    assert int(output) == {"fixed": 30 * FIXED_NS, "off": 0}[model]
