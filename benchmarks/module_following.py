"""CPU time of a training iteration whose work is told apart by module, against one without.

    python benchmarks/module_following.py [--rounds 5] [--ranks 1 2] [--layers 12] [--json]

`rank` is the CPU time of a rank's process, `all` that of everything there is, host agent and server
included; both per rank and iteration (see training_job.py). Sides take turns, and the ratio is the
median of those of the rounds. The aim is 1.01.
"""

from __future__ import annotations

from measurement import Results, median, parser
from training_job import SCRIPTS, Cost, Job, run_phantora

COLUMNS = ("script", "ranks", "rank ms", "ratio", "all ms", "ratio all")


def row(job: Job, rounds: list[tuple[Cost, Cost]]) -> list[str | float]:
    """The numbers of one job, in the order of the columns."""
    return [
        *(job.script, str(job.ranks)),
        median(plain.rank_cpu_s for plain, _ in rounds) * 1e3,
        median(told.rank_cpu_s / plain.rank_cpu_s for plain, told in rounds),
        median(plain.all_cpu_s for plain, _ in rounds) * 1e3,
        median(told.all_cpu_s / plain.all_cpu_s for plain, told in rounds),
    ]


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    options.add_argument("--layers", type=int, default=12)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--scripts", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    chosen = options.parse_args()
    results = Results(f"CPU time per rank and iteration, {chosen.layers} layers", COLUMNS)
    for script in chosen.scripts:
        for ranks in chosen.ranks:
            job = Job(script, ranks, chosen.steps, chosen.layers)
            rounds = [
                (run_phantora(job), run_phantora(job, "--modules")) for _ in range(chosen.rounds)
            ]
            results.add(*row(job, rounds))
    results.show(chosen.json)


if __name__ == "__main__":
    main()
