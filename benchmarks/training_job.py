"""Runs of the example scripts and what they cost the machine, for overhead.py."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

HERE = Path(__file__).parent
SCRIPTS = {"DDP": "train_gpt_ddp.py", "FSDP2": "train_gpt_fsdp.py"}
# Steps that are not counted: first uses of libraries, allocations, announcements of kernels.
WARM_UP = 5
WATCH_S = 0.02


@dataclass(frozen=True)
class Job:
    """One run of a script."""

    script: str
    ranks: int
    steps: int
    layers: int

    def command(self, notes: Path) -> list[str]:
        """What a rank executes."""
        program = [sys.executable, str(HERE / "step_probe.py"), str(notes), str(WARM_UP)]
        script = str(HERE.parent / "examples" / SCRIPTS[self.script])
        return [*program, script, "--steps", str(self.steps), "--layers", str(self.layers)]


@dataclass(frozen=True)
class Cost:
    """Per rank and iteration after the warm-up.

    `rank_cpu_s` is of the rank's own process. `all_cpu_s` is of every process of the run, data
    loaders included: under `phantora run` until everything has ended, so with host agent, server
    and the writing of the data file; on the null libraries until the script has, because Python's
    taking down of a process is left out by `phantora run`.
    """

    rank_cpu_s: float
    all_cpu_s: float


def run_phantora(job: Job, *further: str) -> Cost:
    """The job under `phantora run`, with `further` options."""
    phantora = [str(Path(sys.executable).with_name("phantora")), "run", "--cluster", "h100"]
    with tempfile.TemporaryDirectory() as directory:
        notes = Path(directory)
        options = ["--quiet", "--ranks", str(job.ranks), "-o", str(notes / "run.phr"), *further]
        command = [*phantora, *options, "--", *job.command(notes)]
        process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return _watch([process], job, notes, to_end=True)


def run_null(job: Job, libraries: str) -> Cost:
    """The job on preloaded `libraries`, one process per rank with torchrun's variables."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {
        "LD_PRELOAD": libraries,
        "WORLD_SIZE": str(job.ranks),
        "LOCAL_WORLD_SIZE": str(job.ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as directory:
        notes = Path(directory)
        processes = []
        for rank in range(job.ranks):
            environment = {**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(
                psutil.Popen(
                    job.command(notes),
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        return _watch(processes, job, notes, to_end=False)


def _watch(processes: list[psutil.Popen], job: Job, notes: Path, to_end: bool) -> Cost:
    """Waits for the end of a run. Raises: SystemExit if it fails."""
    before_s = _children_cpu_s()
    warm_cpu_s = done_cpu_s = 0.0
    while any(process.poll() is None for process in processes):
        time.sleep(WATCH_S)
        if not (notes / "warm").exists():
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            warm_cpu_s = warm_cpu_s or sum(map(_tree_cpu_s, processes))
            if not done_cpu_s and (notes / "done").exists():
                done_cpu_s = sum(map(_tree_cpu_s, processes))
    for process in processes:
        if process.returncode != 0:
            raise SystemExit(f"{process.args!r} ended with status {process.returncode}")
    end_cpu_s = _children_cpu_s() - before_s if to_end else done_cpu_s
    counted = job.steps - WARM_UP
    ranks = [json.loads((notes / f"rank-{r}.json").read_text()) for r in range(job.ranks)]
    cpu_s = sum(steps[-1][0] - steps[WARM_UP - 1][0] for steps in ranks)
    parts = counted * job.ranks
    return Cost(cpu_s / parts, (end_cpu_s - warm_cpu_s) / parts)


def _children_cpu_s() -> float:
    """Of the processes that have ended and been waited for."""
    times = os.times()
    return times.children_user + times.children_system


def _tree_cpu_s(process: psutil.Process) -> float:
    """Of a process, all below it, and those of them that have ended."""
    total_s = 0.0
    for one in (process, *process.children(recursive=True)):
        total_s += sum(one.cpu_times()[:4])
    return total_s
