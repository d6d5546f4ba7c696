"""Runs that measure while they go on, against an executor that needs no GPU."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from phantora_runs import EXAMPLES, Phantora, Run

from phantora_py.cli import main
from phantora_py.data import RunData
from sim_server.timing_cache import TimingCache

pytestmark = pytest.mark.torch
SMALL = ["--layers", "2", "--steps", "4", "--batch", "2"]
COMMAND: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
PRODUCTS = """
import torch
for size in (64, 128):
    x = torch.ones(size, size, device="cuda", dtype=torch.bfloat16)
    print((x @ x + 1).shape)
torch.cuda.synchronize()
"""
FAKE = Path(__file__).parent.parent / "profile" / "fake_executor.py"


def fake(*faults: str) -> str:
    return shlex.join([sys.executable, str(FAKE), *faults])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.fixture(scope="module")
def measured(phantora: Phantora, directory: Path) -> Run:
    """Two ranks, one executor, an empty cache."""
    asked = directory / "asked"
    options = ["--cache", str(directory / "cache"), "--executor", fake(f"asked={asked}")]
    return phantora.run(["--ranks", "2", "--gpu", *options], COMMAND)


def tiers(run: Run) -> dict[str, str]:
    """Of library calls, by name."""
    return {row["name"]: row["tier"] for row in run.data.timings if row["class"] == "gemm"}


def test_what_the_cache_lacks_is_measured_once_for_all_ranks(
    measured: Run, ddp: Run, directory: Path
) -> None:
    """It is priced as measured and kept; what the executor refuses is modelled as ever."""
    assert measured.exit_code == 0, measured.errors
    assert set(tiers(measured).values()) == {"measured"}
    asked = (directory / "asked").read_text().splitlines()
    assert len(asked) == len(set(asked)) > 20
    found = measured.data.measuring
    assert found is not None
    with TimingCache(directory / "cache") as cache:
        assert len(cache.entries()) == found["measured"] > 10
    assert found["measured"] + len(found["refused"]) == len(asked)
    assert {row["reason"] for row in found["refused"]} == {"a kernel by name"}
    # Twice as long, as the executor said.
    for kernel_class, factor in (("gemm", 2.0), ("elementwise", 1.0)):
        before_ns, after_ns = (
            sum(row["duration_ns"] for row in run.data.timings if row["class"] == kernel_class)
            for run in (ddp, measured)
        )
        assert after_ns == pytest.approx(factor * before_ns, rel=1e-6)
    assert ddp.data.measuring is None


def test_what_was_measured_is_not_measured_again(
    measured: Run, phantora: Phantora, directory: Path
) -> None:
    """The second run asks for refused ones alone. Both have the same times, also without a GPU."""
    asked = directory / "asked-again"
    options = ["--ranks", "2", "--cache", str(directory / "cache")]
    executor = ["--gpu", "--executor", fake(f"asked={asked}")]
    again = phantora.run([*options, *executor], COMMAND)
    assert again.exit_code == 0, again.errors
    assert again.data.measuring is not None
    assert measured.data.measuring is not None
    assert again.data.measuring["measured"] == 0
    assert again.data.measuring["known"] == measured.data.measuring["measured"]
    assert all('"kind": "kernel"' in line for line in asked.read_text().splitlines())
    alone = phantora.run(options, COMMAND)
    assert alone.data.run["digest"] == again.data.run["digest"] == measured.data.run["digest"]


@pytest.mark.parametrize("fault", ["die", "hang", "lie"])
def test_a_kernel_that_breaks_the_executor_costs_a_restart(
    fault: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run goes on: that one is modelled, the other is measured; `profile` tells of it."""
    output = tmp_path / "run.phr"
    words = ["profile", "--cache", str(tmp_path / "cache"), "--ranks", "1", "-o", str(output)]
    limit = ["--limit", "1" if fault == "hang" else "60"]
    executor = ["--executor", fake(f'{fault}="m": 64,')]
    assert main([*words, *limit, *executor, "--", sys.executable, "-c", PRODUCTS]) == 0
    data = RunData(output)
    assert [row["tier"] for row in data.timings if row["class"] == "gemm"] == [
        *("modelled", "measured")
    ]
    assert data.measuring is not None
    assert (data.measuring["measured"], data.measuring["restarts"]) == (1, 1)
    said = capfd.readouterr()
    refused = len(data.measuring["refused"])
    assert f"1 measured, 0 known already, {refused} refused, 1 restarts" in said.out
    assert "refused 1 x gemm: " in said.err
    assert "x elementwise: a kernel by name" in said.err


@pytest.mark.parametrize(
    ("executor", "words"),
    [
        (fake("no-gpu"), "the GPU executor cannot work here: there is no GPU"),
        (fake("gpu=NVIDIA H200"), "this machine's GPU is 'NVIDIA H200' and the simulated"),
        ("no-such-program", "the GPU executor no-such-program does not start"),
        (None, r"PyTorch \S+ \(CUDA \S+\) finds no GPU. Check that nvidia-smi lists one"),
    ],
)
def test_a_machine_without_that_gpu_is_told_at_the_start(
    executor: str | None, words: str, failing_phantora: Phantora, tmp_path: Path
) -> None:
    """Nothing runs. The last one is the real executor, where there is no GPU."""
    if executor is None and Path("/dev/nvidiactl").exists():
        pytest.skip("there may be a GPU")
    options = ["--ranks", "1", "--gpu", "--cache", str(tmp_path / "cache")]
    options += ["--executor", executor] if executor else []
    run = failing_phantora.run(options, ["-c", "print('ran')"])
    assert run.exit_code == 2, run.errors
    assert re.search(words, " ".join(run.errors.split())), run.errors
    assert "ran" not in run.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpu"], "--gpu needs --cache FILE"),
        (["--executor", "x"], "--executor says what measures for --gpu"),
        (["--gpu", "--cache", "c", "--server", "s"], "not for --server"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], words: str, failing_phantora: Phantora
) -> None:
    """They are refused before anything is started."""
    run = failing_phantora.run(["--ranks", "1", *options], ["-c", "print('ran')"])
    assert run.exit_code == 2
    assert words in run.errors


def test_a_killed_run_leaves_no_executor(failing_phantora: Phantora, tmp_path: Path) -> None:
    """Not even one that hangs over a kernel: `failing_phantora` looks for it."""
    asked = tmp_path / "asked"
    executor = fake(f"asked={asked}", "hang=.")
    options = ["--ranks", "1", "--gpu", "--cache", str(tmp_path / "cache"), "--executor", executor]
    process, _ = failing_phantora.start(options, COMMAND)
    deadline_s = time.monotonic() + 120
    while not asked.exists():
        assert time.monotonic() < deadline_s
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    assert any("python" in one for one in failing_phantora.left())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
