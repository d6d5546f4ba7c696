"""CPU time of a training iteration under `phantora run`, against the same script on libraries that
do nothing.

    python benchmarks/overhead.py [--rounds 3] [--ranks 1 2] [--layers 12] [--json]

The floor is what PyTorch and the script cost by themselves: null_libraries/ has every function that
our libraries have, and returns success. Both sides run the examples with as many ranks; on the
floor each rank runs alone.

`rank` is the CPU time of a rank's process, `all` that of everything there is, data loaders, host
agent and server included; both per rank and iteration (see training_job.py). Medians of the
rounds; the two sides take turns. The aim is 1.3.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import Results, median, parser
from training_job import SCRIPTS, Cost, Job, run_null, run_phantora

COLUMNS = ("script", "ranks", "floor ms", "rank ms", "ratio", "floor all ms", "all ms", "ratio all")


def build_null_libraries(directory: str) -> str:
    """What LD_PRELOAD must name."""
    builder = Path(__file__).parent / "null_libraries" / "build.py"
    command = [sys.executable, str(builder), directory]
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return ":".join(built.split())


def row(job: Job, null: list[Cost], ours: list[Cost]) -> list[str | float]:
    """The numbers of one job, in the order of the columns."""
    floor_ms = median(cost.rank_cpu_s for cost in null) * 1e3
    rank_ms = median(cost.rank_cpu_s for cost in ours) * 1e3
    floor_all_ms = median(cost.all_cpu_s for cost in null) * 1e3
    all_ms = median(cost.all_cpu_s for cost in ours) * 1e3
    ratios = rank_ms / floor_ms, all_ms / floor_all_ms
    names = job.script, str(job.ranks)
    return [*names, floor_ms, rank_ms, ratios[0], floor_all_ms, all_ms, ratios[1]]


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    options.add_argument("--layers", type=int, default=12)
    options.add_argument("--steps", type=int, default=120)
    options.add_argument("--scripts", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    chosen = options.parse_args()
    results = Results(f"CPU time per rank and iteration, {chosen.layers} layers", COLUMNS)
    with tempfile.TemporaryDirectory() as directory:
        libraries = build_null_libraries(directory)
        for script in chosen.scripts:
            for ranks in chosen.ranks:
                job = Job(script, ranks, chosen.steps, chosen.layers)
                rounds = [
                    (run_null(job, libraries), run_phantora(job)) for _ in range(chosen.rounds)
                ]
                null, ours = (list(side) for side in zip(*rounds, strict=True))
                results.add(*row(job, null, ours))
    results.show(chosen.json)


if __name__ == "__main__":
    main()
