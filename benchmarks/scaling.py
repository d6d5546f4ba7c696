"""What a run costs the machine as ranks are added: wall time, core-seconds, memory.

    python benchmarks/scaling.py [--ranks 1 2 4 8] [--rounds 3] [--layers 12] [--json]

The DDP example under `phantora run`. Wall time and core-seconds are per rank and iteration, of
everything there is: the difference between runs of two lengths, divided by ranks and steps, so that
the start falls out. Memory is the proportional set size (PSS, in which a shared page counts in
parts) of a rank's processes, data loaders included: the median of the ranks, at its peak among
samples of the longer run. Medians of the rounds. Ranks share the machine's cores, so wall time per
rank cannot fall below core-seconds divided by cores.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from measurement import Results, median, parser

SCRIPT = Path(__file__).parents[1] / "examples" / "train_gpt_ddp.py"
SAMPLE_S = 0.5


@dataclass(frozen=True)
class Cost:
    """One run. `pss_mib`: of a rank."""

    wall_s: float
    core_s: float
    pss_mib: float


def rank_processes(run: psutil.Process) -> list[list[psutil.Process]]:
    """The processes of each rank: all below one child of the process that starts them."""
    starters = [child for child in run.children() if "starter" in " ".join(child.cmdline())]
    ranks = [rank for starter in starters for rank in starter.children()]
    return [[rank, *rank.children(recursive=True)] for rank in ranks]


def sample_pss_mib(run: psutil.Process) -> float:
    """Median over the ranks; 0 while there are none."""
    per_rank = []
    try:
        for processes in rank_processes(run):
            per_rank.append(sum(process.memory_full_info().pss for process in processes) / 2**20)
    except psutil.NoSuchProcess:
        return 0  # the run is ending
    return statistics.median(per_rank) if per_rank else 0


def run_once(ranks: int, steps: int, layers: int) -> Cost:
    """Runs the example and watches it."""
    with tempfile.TemporaryDirectory() as directory:
        output = ["-o", f"{directory}/run.phr", "--quiet"]
        phantora = [sys.executable, "-m", "phantora_py", "run", "--cluster", "h100", *output]
        script = [sys.executable, str(SCRIPT), "--steps", str(steps), "--layers", str(layers)]
        before_s, started_s = _children_cpu_s(), time.monotonic()
        run = subprocess.Popen(
            [*phantora, "--ranks", str(ranks), "--", *script], stdout=subprocess.DEVNULL
        )
        samples = [0.0]
        ended = threading.Event()

        def watch() -> None:
            process = psutil.Process(run.pid)
            while not ended.wait(SAMPLE_S):
                samples.append(sample_pss_mib(process))

        watcher = threading.Thread(target=watch)
        watcher.start()
        status = run.wait()
        wall_s = time.monotonic() - started_s
        ended.set()
        watcher.join()
        if status != 0:
            raise SystemExit(f"phantora run ended with status {status}")
        return Cost(wall_s, _children_cpu_s() - before_s, max(samples))


def measure(ranks: int, options: argparse.Namespace) -> Cost:
    """Medians, with times per rank and iteration."""
    short, long = options.steps
    costs = []
    for _ in range(options.rounds):
        first, second = (run_once(ranks, steps, options.layers) for steps in (short, long))
        parts = ranks * (long - short)
        wall_s = (second.wall_s - first.wall_s) / parts
        costs.append(Cost(wall_s, (second.core_s - first.core_s) / parts, second.pss_mib))
    return Cost(
        median(cost.wall_s for cost in costs),
        median(cost.core_s for cost in costs),
        median(cost.pss_mib for cost in costs),
    )


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--layers", type=int, default=12)
    options.add_argument(
        "--steps", type=int, nargs=2, default=(10, 110), help="lengths of the two runs"
    )
    chosen = options.parse_args()
    columns = ("ranks", "wall ms", "core-ms", "PSS per rank, MiB")
    results = Results(f"DDP example per rank and iteration, {chosen.layers} layers", columns)
    for ranks in chosen.ranks:
        cost = measure(ranks, chosen)
        results.add(str(ranks), cost.wall_s * 1e3, cost.core_s * 1e3, cost.pss_mib)
    results.show(chosen.json)


if __name__ == "__main__":
    main()
