"""Time-outs that run out do so in virtual time, at the right instant, and cost no real
time, but for that of a wait for a child that sleeps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.cli import main

pytestmark = pytest.mark.torch

WAIT_NS = 60 * 10**9
# What Python's own rounding and the readings of its clocks make of it.
READINGS_NS = 5_000
TURN_NS = 2_000_000  # asyncio rounds up to milliseconds
# What two ranks spend on meeting and on messages.
ABOUT_S = 0.01


@pytest.fixture(scope="module")
def alone(phantora: Phantora) -> Run:
    return phantora.run(["--ranks", "1"], [PROGRAMS / "time_outs.py"])


@pytest.fixture(scope="module")
def took(alone: Run) -> dict[str, int]:
    """How long each of the program's waits took."""
    assert alone.exit_code == 0, alone.errors
    told: dict[str, int] = json.loads(alone.output)
    return told


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_wait_that_nothing_ends_takes_its_time_out(took: dict[str, int], where: str) -> None:
    """On every thread, and to the instant."""
    waits = {name: ns for name, ns in took.items() if name.startswith(where)}
    assert len(waits) >= 12
    for name, took_ns in waits.items():
        slack_ns = TURN_NS if "asyncio" in name else READINGS_NS
        assert WAIT_NS <= took_ns <= WAIT_NS + slack_ns, name


def test_a_wait_for_a_process_that_sleeps_takes_its_time_out(took: dict[str, int]) -> None:
    """It has that much of the machine's time to wake."""
    assert took["process that sleeps"] == pytest.approx(3 * 10**9, abs=READINGS_NS)


def test_a_wait_that_a_timer_ends_takes_that_long(took: dict[str, int]) -> None:
    """The thread that it started half the time-out ago does it."""
    assert took["ended: event"] == pytest.approx(WAIT_NS / 2, abs=READINGS_NS)


def test_a_timer_rings_in_the_middle_of_the_training(took: dict[str, int]) -> None:
    """At its time, while the host waits for the device, which is seen in the same iteration."""
    assert took["timer while training"] == pytest.approx(3 * 10**9, abs=READINGS_NS)
    until_ns = took["training until the timer"]
    assert 3 * 10**9 <= until_ns < 3 * 10**9 + until_ns / took["iterations until the timer"]


def test_handlers_may_be_put_back(phantora: Phantora) -> None:
    """Also those that Python does not know of: a time-out ends, and the rank does not."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "handlers.py"])
    assert (run.exit_code, run.output) == (0, "waited twice\n"), run.errors


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_see_the_clock_of_their_rank(took: dict[str, int], context: str) -> None:
    """However they were started; and that takes no virtual time."""
    for name in ("clock of worker", "loader"):
        assert took[f"{name}: {context}"] == pytest.approx(0, abs=READINGS_NS)


def run_two(phantora: Phantora, **environment: str) -> Run:
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return phantora.run([], [*torchrun, PROGRAMS / "time_outs_of_two.py"], environment)


@pytest.fixture(scope="module", params=["0", "1"])
def pair(phantora: Phantora, request: pytest.FixtureRequest) -> tuple[Run, Run]:
    """The same twice, with either of PyTorch's NCCL backends."""
    first, second = (run_two(phantora, TORCH_DIST_USE_NCCL2=request.param) for _ in range(2))
    return first, second


def lines(run: Run) -> list[dict[str, Any]]:
    """What the ranks said, by rank; lines may begin with a rank's name."""
    assert run.exit_code == 0, run.errors
    told = [json.loads(line[line.index("{") :]) for line in run.output.splitlines()]
    return sorted(told, key=lambda one: int(one["rank"]))


def test_a_message_in_time_and_one_too_late(pair: tuple[Run, Run]) -> None:
    """Timers ring in each rank, and watchdogs do not take leaps of the clock for a hang."""
    for run in pair:
        waiting, sending = lines(run)
        assert [waiting["first"][0], waiting["second"][0]] == ["one", "two"]
        ends = [waiting["first"][1], waiting["too late"], waiting["second"][1]]
        assert ends == pytest.approx([20, 80, 120], abs=ABOUT_S)
        for told in (waiting, sending):
            assert [told["timer"], told["end"]] == pytest.approx([300, 2220], abs=ABOUT_S)


def test_time_outs_leave_equal_runs_equal(pair: tuple[Run, Run], tmp_path: Path) -> None:
    """One digest, also when the run is simulated again without its ranks."""
    first, second = pair
    assert lines(first) == lines(second)
    assert first.summary["digest"] == second.summary["digest"]
    again = tmp_path / "again.phr"
    assert main(["resimulate", str(first.path), "-o", str(again), "--quiet"]) == 0
    assert Run(0, "", "", again, 0.0).summary["digest"] == first.summary["digest"]
