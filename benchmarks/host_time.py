"""One script under each host-time model, several times: its iteration time, the spread of that, and
what part of it is the host's; on the machine as it is, on some of its processors, and beside
processes that load it.

    python benchmarks/host_time.py [--json] [--runs N] [--ranks N] [--processors 1,2,4] [--busy N]

The script (host_time_script.py) is bound by its host: many small kernels, and some work of its own
in Python. `recorded` replays the first measured run. The spread is that of the runs' medians, as a
share of their median; the difference that of this median from the one on the machine as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measurement import Results, median, parser

from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from phantora_py.report.summary import summarise

SCRIPT = Path(__file__).with_name("host_time_script.py")
MODELS = ("off", "fixed", "measured", "recorded")


@dataclass(frozen=True)
class Machine:
    """Where runs are made. `processors`: how many of ours they may use; None: all."""

    name: str
    processors: int | None = None
    busy: int = 0


def machines(processors: Sequence[int], busy: int) -> list[Machine]:
    """The machine as it is first."""
    limited = [Machine(f"{count} of its processors", count) for count in processors]
    return [Machine("as it is"), *limited, Machine(f"{busy} busy processes", busy=busy)]


def run(
    directory: Path, number: int, model: str, ranks: int, gaps: Path | None
) -> tuple[Path, dict[str, Any]]:
    """One run: its data file and its summary."""
    path = directory / f"{model}-{number}.phr"
    words = [*module_command("phantora_py"), "run", "--quiet", "--ranks", str(ranks)]
    words += ["-o", str(path), "--host-time", model]
    if model == "recorded":
        words += ["--host-gaps", str(gaps)]
    subprocess.run([*words, "--", sys.executable, str(SCRIPT)], check=True, cwd=directory)
    return path, dict(summarise(RunData(path)))


@contextmanager
def on(machine: Machine) -> Iterator[None]:
    """What we start meanwhile runs there."""
    allowed = os.sched_getaffinity(0)
    words = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(words) for _ in range(machine.busy)]
    os.sched_setaffinity(0, sorted(allowed)[: machine.processors])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        for process in busy:
            process.kill()
            process.wait()


def cpu_count() -> int:
    """Processors that we may use."""
    return len(os.sched_getaffinity(0))


def counts(text: str) -> list[int]:
    """Numbers with commas between."""
    return [int(word) for word in text.split(",")]


def host_share(summary: dict[str, Any]) -> float:
    """Part of the iteration in which the device waits for the host."""
    parts = summary["breakdown_ns"]
    whole_ns = sum(
        parts[key]
        for key in ("compute", "exposed_communication", "waiting_for_ranks", "host", "idle")
    )
    return float((parts["host"] + parts["idle"]) / whole_ns)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=5, help="runs of each model; default: 5")
    options.add_argument("--ranks", type=int, default=1, help="ranks of each run; default: 1")
    options.add_argument(
        "--processors",
        type=counts,
        default="1",
        help="numbers of processors to run on, if there are so many; default: 1",
    )
    options.add_argument(
        "--busy",
        type=int,
        default=2 * cpu_count(),
        help="processes that load the machine",
    )
    chosen = options.parse_args()
    here = machines([n for n in chosen.processors if n < cpu_count()], chosen.busy)
    columns = ("host time", "machine", "iteration us", "spread %", "difference %", "host %")
    results = Results("One script under each host-time model", columns)
    with tempfile.TemporaryDirectory() as name:
        directory, gaps = Path(name), None
        for model in MODELS:
            usual_ns = 0.0
            for machine in here:
                with on(machine):
                    made = [
                        run(directory, n, model, chosen.ranks, gaps) for n in range(chosen.runs)
                    ]
                if model == "measured" and gaps is None:
                    gaps = made[0][0].rename(directory / "gaps.phr")
                medians_ns = [one["iterations"]["median_ns"] for _, one in made]
                middle_ns = median(medians_ns)
                spread = (max(medians_ns) - min(medians_ns)) / middle_ns
                share = median([host_share(one) for _, one in made])
                usual_ns = usual_ns or middle_ns
                difference = middle_ns / usual_ns - 1
                figures = (middle_ns / 1e3, 100 * spread, 100 * difference, 100 * share)
                results.add(model, machine.name, *figures)
    results.show(chosen.json)


if __name__ == "__main__":
    main()
