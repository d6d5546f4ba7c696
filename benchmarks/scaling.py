"""What a run costs the machine as ranks are added: wall time, core-seconds, memory.

    python benchmarks/scaling.py [--ranks 1 2 4 8] [--rounds 3] [--layers 12] [--json]

The DDP example under `phantora run`. Times are per rank and iteration, core time of everything
there is; memory is the proportional set size (PSS, in which a shared page counts in parts) of a
rank's processes, data loaders included (see training_job.py). Medians of the rounds. Ranks share
the machine's cores, so wall time per rank cannot fall below core time divided by cores.
"""

from __future__ import annotations

from measurement import Results, median, parser
from training_job import Job, run_phantora


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--layers", type=int, default=12)
    options.add_argument("--steps", type=int, default=60)
    chosen = options.parse_args()
    columns = ("ranks", "wall ms", "core ms", "PSS per rank, MiB")
    results = Results(f"DDP example per rank and iteration, {chosen.layers} layers", columns)
    for ranks in chosen.ranks:
        job = Job("DDP", ranks, chosen.steps, chosen.layers)
        costs = [run_phantora(job, weigh=True) for _ in range(chosen.rounds)]
        results.add(
            str(ranks),
            median(cost.wall_s for cost in costs) * 1e3,
            median(cost.all_cpu_s for cost in costs) * 1e3,
            median(cost.pss_mib for cost in costs),
        )
    results.show(chosen.json)


if __name__ == "__main__":
    main()
