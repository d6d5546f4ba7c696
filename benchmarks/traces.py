"""What a trace of a whole run costs, as JSON and in Perfetto's format.

    python benchmarks/traces.py [FILE] [--ranks 64] [--rounds 3] [--json]

FILE is of a run; without one the GPT example is run first, data-parallel, for ten iterations after
the first. All formats are written in turn, each by a command of its own: times include the start of
the interpreter. The JSON of all ranks lacks the calls that issued work; the others have them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from measurement import Results, median
from report import measure_file, time_command

# All others are compared with the first.
FORMATS = {
    "JSON of all ranks, without calls": "a.json",
    "the same, packed": "a.json.gz",
    "JSON of each rank, packed": "ranks",
    "Perfetto": "a.pftrace",
    "Perfetto, packed": "a.pftrace.gz",
}


def size_mb(path: Path) -> float:
    """Of a file, or of those in a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files) / 1e6


def measure(path: Path, folder: Path, rounds: int) -> Results:
    """Every format of one run."""
    results = Results("Traces", ["format", "CPU s", "wall s", "MB", "CPU, ratio", "MB, ratio"])
    times: dict[str, list[tuple[float, float]]] = {file: [] for file in FORMATS.values()}
    for _ in range(rounds):
        for file, taken in times.items():
            taken.append(time_command("report", str(path), "--trace", str(folder / file)))
    medians = {
        file: tuple(median(column) for column in zip(*taken, strict=True))
        for file, taken in times.items()
    }
    sizes_mb = {file: size_mb(folder / file) for file in times}
    first = next(iter(times))
    for name, file in FORMATS.items():
        cpu_s, wall_s = medians[file]
        ratios = (cpu_s / medians[first][0], sizes_mb[file] / sizes_mb[first])
        results.add(name, cpu_s, wall_s, sizes_mb[file], *ratios)
    return results


if __name__ == "__main__":
    sys.exit(measure_file(__doc__, measure))
