"""All clocks of a program and the report tell one time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

# Floats of time.time() and events' milliseconds resolve less than a microsecond.
RESOLUTION_S = 1e-6
# The five clocks are read one after the other; each reading costs virtual time.
READING_S = 5e-6


@pytest.fixture(scope="module")
def run(phantora: Phantora) -> Run:
    return phantora.run(["--ranks", "1"], [PROGRAMS / "clocks.py"])


@pytest.fixture(scope="module")
def said(run: Run) -> dict[str, Any]:
    """What the program printed, in seconds."""
    assert run.exit_code == 0, run.errors
    told: dict[str, Any] = json.loads(run.output)
    return told


@pytest.mark.parametrize("part", ["issuing", "whole", "sleep"])
def test_host_clocks_agree(said: dict[str, Any], part: str) -> None:
    """Each pair of readings is as far apart on every clock."""
    first, *others = said[part].values()
    assert others == pytest.approx([first] * len(others), abs=RESOLUTION_S)


def products(run: Run) -> Any:
    """Spans of the five matrix products that are timed."""
    gemms = [index for index, timing in enumerate(run.data.timings) if timing["class"] == "gemm"]
    (index,) = gemms
    assert run.data.timings[index]["count"] == 6
    spans = run.data.spans
    return spans[(spans["kind"] == 1) & (spans["id"] == index)][1:]


def test_events_agree_with_the_report(run: Run, said: dict[str, Any]) -> None:
    """From the record of the first event, which is idle, to the end of the last product."""
    spans = products(run)
    busy_s = float(spans["end_ns"].max() - spans["start_ns"].min()) / 1e9
    assert said["events"] >= busy_s - RESOLUTION_S
    # The first product begins when the host has issued it, tens of microseconds later.
    assert said["events"] == pytest.approx(busy_s, abs=100e-6)


def test_host_clocks_agree_with_the_report(run: Run, said: dict[str, Any]) -> None:
    """Issuing is quick, waiting lasts as long as the device works."""
    spans = products(run)
    busy_s = float(spans["end_ns"].max() - spans["start_ns"].min()) / 1e9
    whole_s, issuing_s = said["whole"]["perf_counter"], said["issuing"]["perf_counter"]
    assert issuing_s < busy_s / 4
    assert whole_s == pytest.approx(busy_s, abs=200e-6)
    assert whole_s >= said["events"]


def test_a_sleep_takes_its_virtual_time_and_no_more(run: Run, said: dict[str, Any]) -> None:
    """And no wall time to speak of is needed for it."""
    assert said["sleep"]["time"] == pytest.approx(0.25, abs=100e-6)


def test_ranges_are_found(run: Run) -> None:
    """A program without an optimizer: its NVTX ranges tell iterations."""
    iterations = run.summary["iterations"]
    assert (iterations["detected_by"], iterations["count"]) == ("nvtx", 4)
    spans = products(run)
    lasted_ns = (spans["end_ns"] - spans["start_ns"]).tolist()
    assert iterations["median_ns"] == pytest.approx(lasted_ns[0], rel=0.01)
