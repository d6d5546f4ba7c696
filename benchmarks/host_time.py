"""One script under each host-time model, several times: its iteration time, the spread of that, and
what part of it is the host's; once on the machine as it is, once beside processes that load it.

    python benchmarks/host_time.py [--json] [--runs N] [--busy N]

The script (host_time_script.py) is bound by its host: many small kernels, and some work of its own
in Python. `recorded` replays the first measured run. The spread is that of the runs' medians, as a
share of their median.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measurement import Results, median, parser

from phantora_py.data import RunData
from phantora_py.report.summary import summarise

SCRIPT = Path(__file__).with_name("host_time_script.py")
MODELS = ("off", "fixed", "measured", "recorded")


def run(directory: Path, number: int, model: str, gaps: Path | None) -> tuple[Path, dict[str, Any]]:
    """One run: its data file and its summary."""
    path = directory / f"{model}-{number}.phr"
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "--ranks", "1", "-o", str(path)]
    words += ["--host-time", model]
    if model == "recorded":
        words += ["--host-gaps", str(gaps)]
    subprocess.run([*words, "--", sys.executable, str(SCRIPT)], check=True, cwd=directory)
    return path, summarise(RunData(path))


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Processes beside us that want a processor all the time."""
    words = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(words) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def host_share(summary: dict[str, Any]) -> float:
    """Part of the iteration in which the device waits for the host."""
    parts = summary["breakdown_ns"]
    whole_ns = sum(parts[key] for key in ("compute", "exposed_communication", "host", "idle"))
    return float((parts["host"] + parts["idle"]) / whole_ns)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=5, help="runs of each model; default: 5")
    options.add_argument(
        "--busy",
        type=int,
        default=2 * (os.cpu_count() or 1),
        help="processes that load the machine",
    )
    chosen = options.parse_args()
    columns = ("host time", "machine", "iteration us", "spread %", "host %")
    results = Results("One script under each host-time model", columns)
    with tempfile.TemporaryDirectory() as name:
        directory, gaps = Path(name), None
        for model in MODELS:
            for machine, busy in (("as it is", 0), (f"{busy_text(chosen.busy)}", chosen.busy)):
                with load(busy):
                    made = [run(directory, n, model, gaps) for n in range(chosen.runs)]
                if model == "measured" and gaps is None:
                    gaps = made[0][0].rename(directory / "gaps.phr")
                medians_ns = [one["iterations"]["median_ns"] for _, one in made]
                middle_ns = median(medians_ns)
                spread = (max(medians_ns) - min(medians_ns)) / middle_ns
                share = median([host_share(one) for _, one in made])
                results.add(model, machine, middle_ns / 1e3, 100 * spread, 100 * share)
    results.show(chosen.json)


def busy_text(processes: int) -> str:
    """How the loaded machine is named in the table."""
    return f"{processes} busy processes"


if __name__ == "__main__":
    main()
