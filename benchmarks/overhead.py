"""CPU time of a training iteration under `phantora run`, against the same script on libraries that
do nothing.

    python benchmarks/overhead.py [--rounds 3] [--ranks 1 2] [--layers 12] [--json]

The floor is what PyTorch and the script cost by themselves: null_libraries/ has every function that
our libraries have, and returns success. Both sides run the examples with as many ranks; on the
floor each rank runs alone.

`rank`: CPU time of a rank's process, from the notes of step_probe.py within one run. `all`: CPU
time of everything there is, data loaders, host agent and server included, per rank and iteration:
the difference between runs of two lengths, so that the start falls out. Medians of the rounds; the
two sides take turns. The aim is 1.3.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measurement import Results, median, parser

HERE = Path(__file__).parent
SCRIPTS = {"DDP": "train_gpt_ddp.py", "FSDP2": "train_gpt_fsdp.py"}
# Steps that are not counted: first uses of libraries, allocations, announcements of kernels.
WARM_UP = 4


@dataclass(frozen=True)
class Job:
    """One run of a script."""

    script: str
    ranks: int
    steps: int
    layers: int

    def command(self, notes: Path) -> list[str]:
        """What a rank executes."""
        program = [sys.executable, str(HERE / "step_probe.py"), str(notes)]
        script = str(HERE.parent / "examples" / SCRIPTS[self.script])
        return [*program, script, "--steps", str(self.steps), "--layers", str(self.layers)]


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one run: `rank_s` per iteration after the warm-up, `all_s` of all processes
    and all steps.
    """

    rank_s: float
    all_s: float


def run_phantora(job: Job, notes: Path) -> None:
    """The job under `phantora run`."""
    program = [
        str(Path(sys.executable).with_name("phantora")),
        "run",
        "--cluster",
        "h100",
        "--ranks",
    ]
    _check(
        subprocess.Popen(
            [*program, str(job.ranks), "-o", str(notes / "run.phr"), "--", *job.command(notes)]
        )
    )


def run_null(job: Job, notes: Path, libraries: str) -> None:
    """The job on the null libraries, one process per rank with torchrun's variables."""
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
    processes = []
    for rank in range(job.ranks):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        environment = {**os.environ, **common, **own}
        processes.append(
            subprocess.Popen(job.command(notes), env=environment, stdout=subprocess.DEVNULL)
        )
    for process in processes:
        _check(process)


def measure(job: Job, run: Callable[[Job, Path], None]) -> Cost:
    """Runs the job and returns what it cost."""
    with tempfile.TemporaryDirectory() as directory:
        notes = Path(directory)
        before_s = _children_cpu_s()
        run(job, notes)
        all_s = _children_cpu_s() - before_s
        per_rank = []
        for rank in range(job.ranks):
            cpu_s = json.loads((notes / f"rank-{rank}.json").read_text())
            per_rank.append((cpu_s[-1] - cpu_s[WARM_UP]) / (len(cpu_s) - 1 - WARM_UP))
    return Cost(sum(per_rank) / job.ranks, all_s)


def per_iteration(
    script: str, ranks: int, options: argparse.Namespace, libraries: str
) -> dict[str, tuple[float, float]]:
    """Median CPU milliseconds per rank and iteration, of the rank and of all, by side."""
    sides: dict[str, Callable[[Job, Path], None]] = {
        "null": lambda job, notes: run_null(job, notes, libraries),
        "ours": run_phantora,
    }
    short, long = options.steps
    rank_ms, all_ms = defaultdict(list), defaultdict(list)
    for _ in range(options.rounds):
        for side, run in sides.items():
            costs = [
                measure(Job(script, ranks, steps, options.layers), run) for steps in (short, long)
            ]
            rank_ms[side].append(costs[1].rank_s * 1e3)
            all_ms[side].append((costs[1].all_s - costs[0].all_s) / (long - short) / ranks * 1e3)
    return {side: (median(rank_ms[side]), median(all_ms[side])) for side in sides}


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _check(process: subprocess.Popen[bytes]) -> None:
    if process.wait() != 0:
        raise SystemExit(f"{process.args!r} ended with status {process.returncode}")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    options.add_argument("--layers", type=int, default=12)
    options.add_argument(
        "--steps", type=int, nargs=2, default=(10, 110), help="lengths of the two runs"
    )
    options.add_argument("--scripts", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    chosen = options.parse_args()
    columns = (
        "script",
        "ranks",
        "rank, floor ms",
        "rank ms",
        "ratio",
        "all, floor ms",
        "all ms",
        "ratio of all",
    )
    results = Results(f"CPU time per rank and iteration, {chosen.layers} layers", columns)
    with tempfile.TemporaryDirectory() as directory:
        builder = [sys.executable, str(HERE / "null_libraries" / "build.py"), directory]
        built = subprocess.run(builder, check=True, stdout=subprocess.PIPE, text=True).stdout
        libraries = ":".join(built.split())
        for script in chosen.scripts:
            for ranks in chosen.ranks:
                costs = per_iteration(script, ranks, chosen, libraries)
                (rank_floor, all_floor), (rank, everything) = costs["null"], costs["ours"]
                results.add(
                    script,
                    str(ranks),
                    rank_floor,
                    rank,
                    rank / rank_floor,
                    all_floor,
                    everything,
                    everything / all_floor,
                )
    results.show(chosen.json)


if __name__ == "__main__":
    main()
