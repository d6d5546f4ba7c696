"""What a trace of a whole run costs as JSON and in Perfetto's format: time, and size of the file.

    python benchmarks/traces.py [FILE] [--ranks 64] [--rounds 3] [--json]

FILE is of a run; without one the GPT example is run first, data-parallel, for ten iterations after
the first. Both formats are written in turn, each by a command of its own: CPU and wall seconds with the
interpreter's start. Perfetto's has the calls that issued work, too, and the JSON of all ranks not.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measurement import Results, median, parser
from report import make_file, time_command

# JSON first: others are compared with it.
FORMATS = {
    "JSON": "a.json",
    "JSON, packed": "a.json.gz",
    "Perfetto": "a.pftrace",
    "Perfetto, packed": "a.pftrace.gz",
}


def measure(path: Path, folder: Path, rounds: int) -> Results:
    """Every format of one run."""
    columns = ["format", "CPU s", "wall s", "MB", "of JSON's CPU time", "of JSON's size"]
    results = Results("Traces", columns)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMATS}
    for _ in range(rounds):
        for name, file in FORMATS.items():
            times[name].append(time_command("report", str(path), "--trace", str(folder / file)))
    first: tuple[float, float] | None = None
    for name, file in FORMATS.items():
        cpu_s, wall_s = (median(column) for column in zip(*times[name], strict=True))
        megabytes = (folder / file).stat().st_size / 1e6
        first = first or (cpu_s, megabytes)
        shares = f"{cpu_s / first[0]:.2f}", f"{megabytes / first[1]:.3f}"
        results.add(name, cpu_s, wall_s, megabytes, *shares)
    return results


def main() -> int:
    """Measures and prints."""
    options = parser(__doc__)
    options.add_argument("file", type=Path, nargs="?", help="a data file; default: of a new run")
    options.add_argument("--ranks", type=int, default=64, help="of the new run")
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = arguments.file or make_file(folder, arguments.ranks)
        measure(path, folder, arguments.rounds).show(arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
