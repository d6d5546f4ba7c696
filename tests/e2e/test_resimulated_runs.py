"""Recorded runs of real programs, simulated again without their ranks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from phantora_runs import EXAMPLES, PROGRAMS, Phantora, Run

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.summary import summarise

pytestmark = pytest.mark.torch

SMALL = ["--layers", "2", "--steps", "4", "--batch", "2"]


def again(path: Path, output: Path, *options: str, exit_code: int = 0) -> dict[str, Any]:
    """The summary of a resimulation."""
    words = ["resimulate", str(path), "-o", str(output), "--quiet", *options]
    assert main(words) == exit_code
    return dict(summarise(RunData(output)))


@pytest.fixture(
    params=["ddp", "fsdp", "counted fsdp", "ddp of 8", "fsdp of 4", "collectives", "clocks"]
)
def recorded(request: pytest.FixtureRequest, phantora: Phantora) -> Iterator[Run]:
    """The examples; every kind of collective, splits, sends; sleeps, queries and timed events.

    Ranks that are more than two wait for each other outside, and their helpers as well; with
    counted host time two do in each iteration.
    """
    programs: dict[str, tuple[list[str], list[str | Path]]] = {
        "counted fsdp": (
            ["--ranks", "2", "--host-time", "counted"],
            [EXAMPLES / "train_gpt_fsdp.py", *SMALL],
        ),
        "ddp of 8": (["--ranks", "8"], [EXAMPLES / "train_gpt_ddp.py", *SMALL]),
        "fsdp of 4": (["--ranks", "4"], [EXAMPLES / "train_gpt_fsdp.py", *SMALL]),
        "collectives": (["--ranks", "4"], [EXAMPLES / "check_collectives.py"]),
        "clocks": (["--ranks", "1"], [PROGRAMS / "clocks.py"]),
    }
    if request.param in programs:
        yield phantora.run(*programs[request.param])
    else:
        yield request.getfixturevalue(request.param)


def test_the_same_settings_give_the_same_digest(recorded: Run, tmp_path: Path) -> None:
    """And everything else that the report says, but for what the run took of this machine."""
    assert recorded.exit_code == 0, recorded.errors
    found = again(recorded.path, tmp_path / "again.phr")
    expected = dict(recorded.summary)
    made = found.pop("resimulation")
    assert (made["of"], made["same_settings"], made["same_history"]) == (
        recorded.path.name,
        True,
        True,
    )
    for summary in (found, expected):
        del summary["wall"], summary["host_memory"]
    assert expected.pop("resimulation") is None
    assert found == expected


def test_who_waited_outside_comes_back_when_it_would_have(
    phantora: Phantora, tmp_path: Path
) -> None:
    """With the act that woke it, whenever that happens: on another cluster as if run there."""
    program = PROGRAMS / "meetings.py"
    slow, fast = (
        phantora.run(["--ranks", "3", "--cluster", name], [program, str(free_port())])
        for name in ("h100", "h200")
    )
    same = again(slow.path, tmp_path / "same.phr")
    assert same["digest"] == slow.summary["digest"]
    found = again(slow.path, tmp_path / "fast.phr", "--cluster", "h200")
    assert found["resimulation"]["outside_waits"] == 0
    times, expected = found["iterations"], fast.summary["iterations"]
    assert times["per_iteration_ns"] == expected["per_iteration_ns"]
    assert times["median_ns"] < 0.9 * slow.summary["iterations"]["median_ns"]


def test_another_cluster_is_as_if_run_there(phantora: Phantora, ddp: Run, tmp_path: Path) -> None:
    """An H200 differs from an H100 in its memory only: the program does the same on both."""
    program: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
    run = phantora.run(["--ranks", "2", "--cluster", "h200"], program)
    found = again(ddp.path, tmp_path / "again.phr", "--cluster", "h200")
    assert found["cluster"] == "h200"
    assert found["iterations"]["per_iteration_ns"] == pytest.approx(
        run.summary["iterations"]["per_iteration_ns"], rel=0.001
    )
    assert found["iterations"]["median_ns"] < 0.9 * ddp.summary["iterations"]["median_ns"]
    assert found["resimulation"]["same_history"] is None


def test_a_failed_run_as_far_as_it_went(failing_phantora: Phantora, tmp_path: Path) -> None:
    """A deadlock is found again, with the same words."""
    run = failing_phantora.run(["--ranks", "2"], [PROGRAMS / "failing.py", "leave"])
    found = again(run.path, tmp_path / "again.phr", exit_code=5)
    assert found["digest"] == run.summary["digest"]
    assert found["message"] == run.summary["message"]
    deadlocks = [RunData(path).run["deadlock"] for path in (run.path, tmp_path / "again.phr")]
    assert deadlocks[0] == deadlocks[1] != []


def test_the_report_says_what_it_rests_on(
    ddp: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what, and what was taken from the recording."""
    path = tmp_path / "run.phr"
    shutil.copy(ddp.path, path)
    assert main(["resimulate", str(path)]) == 0
    said = capsys.readouterr()
    assert "resimulated from run.phr, recorded on h100; the history is the same\n" in said.out
    assert f"Next: phantora report {tmp_path}/run.resimulated.phr" in said.err.replace("\n", "")
    assert main(["resimulate", str(path), "--cluster", "h200", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["resimulation"]
    assert made["polls"] > 0
    assert made["outside_waits"] >= 0
    assert main(["report", str(tmp_path / "run.resimulated.phr")]) == 0
    assert "as recorded: what each rank did, host time between calls" in capsys.readouterr().out


def test_without_host_time_as_if_run_so(phantora: Phantora, ddp: Run, tmp_path: Path) -> None:
    """Sleeps and acts outside keep their time; a run without host time has nothing to leave out."""
    program: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
    run = phantora.run(["--ranks", "2", "--host-time", "off"], program)
    found = again(ddp.path, tmp_path / "again.phr", "--host-time", "off")
    assert found["host_time"] == "off"
    assert found["iterations"]["per_iteration_ns"] == pytest.approx(
        run.summary["iterations"]["per_iteration_ns"], rel=0.001
    )
    assert found["iterations"]["median_ns"] < ddp.summary["iterations"]["median_ns"]
    assert found["resimulation"]["time_reads"] > 0
    same = again(run.path, tmp_path / "same.phr", "--host-time", "off")
    assert same["digest"] == run.summary["digest"]


def test_another_algorithm_as_if_run_so(phantora: Phantora, ddp: Run, tmp_path: Path) -> None:
    """With the variable that a run reads; unset again, it is the recorded run."""
    program: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
    run = phantora.run(["--ranks", "2"], program, {"NCCL_PROTO": "LL"})
    found = again(ddp.path, tmp_path / "again.phr", "--env", "NCCL_PROTO=LL")
    assert found["iterations"] == run.summary["iterations"]
    assert found["breakdown_ns"] == run.summary["breakdown_ns"]
    assert found["iterations"]["median_ns"] > ddp.summary["iterations"]["median_ns"]
    assert RunData(tmp_path / "again.phr").run["environment"]["NCCL_PROTO"] == "LL"
    back = again(run.path, tmp_path / "back.phr", "--env", "NCCL_PROTO=")
    assert back["iterations"] == ddp.summary["iterations"]


def test_faster_kernels(ddp: Run, tmp_path: Path) -> None:
    """Those whose class or name is meant, and no others; what was supposed is no model."""
    again(ddp.path, tmp_path / "again.phr", "--scale-kernel", "GEMM=0.5")
    pairs = zip(RunData(ddp.path).timings, RunData(tmp_path / "again.phr").timings, strict=True)
    factors = {"gemm": 0.5}
    for before, after in pairs:
        expected_ns = before["duration_ns"] * factors.get(before["class"], 1)
        assert after["duration_ns"] == pytest.approx(expected_ns, abs=1), before["name"]
        assert after["tier"] == ("assumed" if before["class"] in factors else before["tier"])


def test_the_report_says_what_was_supposed(
    ddp: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what the program saw of time, which would be otherwise."""
    words = ["--scale-kernel", "cudnn*=2", "--env", "NCCL_ALGO=Tree", "--host-time", "off"]
    output = str(tmp_path / "again.phr")
    assert main(["resimulate", str(ddp.path), "-o", output, *words]) == 0
    said = capsys.readouterr().out
    assert "what if: NCCL_ALGO=Tree   host time off   cudnn* x 2\n" in said
    assert "as recorded: what each rank did, kernels, memory" in said
    assert "it saw times that would be others now: 24 timings of GPU work" in said


TWO_NODES = ["--ranks", "8", "--gpus-per-node", "4"]
LLAMA: list[str | Path] = [
    EXAMPLES / "train_llama.py",
    *("--layers", "2", "--width", "256", "--hidden", "704", "--heads", "4"),
    *("--vocabulary", "1024", "--sequence", "256", "--steps", "3"),
]


@pytest.mark.parametrize(
    ("folding", "program"),
    [
        pytest.param(["--fold", "1"], LLAMA, id="fsdp2"),
        pytest.param(
            ["--fold", "dp", "--mesh", "pp=2,dp=2,tp=2"],
            [PROGRAMS / "pipelines.py", "1F1B", "2", "2"],
            id="pp-dp-tp",
        ),
    ],
)
def test_folded_runs(
    phantora: Phantora, tmp_path: Path, folding: list[str], program: list[str | Path]
) -> None:
    """They give the same digest; and with another network and other kernels the same iterations as
    a run of all ranks.
    """
    folded = phantora.run([*TWO_NODES, *folding], program)
    whole = phantora.run(TWO_NODES, program)
    assert (folded.exit_code, whole.exit_code) == (0, 0), folded.errors
    made = again(folded.path, tmp_path / "same.phr")
    assert made["resimulation"]["same_history"]
    assert made["trust"]["folding"] == folded.summary["trust"]["folding"] is not None
    changes = ["--scale", "nic=0.5", "--scale", "latency=3", "--scale-kernel", "gemm=1.5"]
    found = [
        again(run.path, tmp_path / f"{number}.phr", *changes)["iterations"]["median_ns"]
        for number, run in enumerate((folded, whole))
    ]
    assert found[0] == found[1] > 1.05 * folded.summary["iterations"]["median_ns"]


def test_a_folded_run_whose_ranks_polled_otherwise(phantora: Phantora, tmp_path: Path) -> None:
    """With counted host time rank 0, which prints, finds more done than its witnesses when it asks.
    In a new simulation its questions are waits, and its witnesses still do the same.
    """
    options = [*TWO_NODES, "--host-time", "counted"]
    folded = phantora.run([*options, "--fold", "1"], LLAMA)
    whole = phantora.run(options, LLAMA)
    assert (folded.exit_code, whole.exit_code) == (0, 0), folded.errors
    found = [
        again(run.path, tmp_path / f"{number}.phr", "--scale", "nic=0.1", "--scale", "latency=3")
        for number, run in enumerate((folded, whole))
    ]
    assert found[0]["resimulation"]["polls"] > 0
    times_ns = [one["iterations"]["median_ns"] for one in found]
    assert times_ns[0] == pytest.approx(times_ns[1], rel=0.005)
