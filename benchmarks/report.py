"""What a data file costs: to write while a run goes on, to open and summarise, to show.

    python benchmarks/report.py [FILE] [--ranks 64] [--rounds 3] [--json]

FILE is of a run; without one the GPT example is run first, data-parallel, for ten iterations after
the first. Views are commands of their own: CPU seconds with the interpreter's start, wall seconds
beside it. Writing is done again with what is in FILE: the server orders, numbers and packs spans,
operations, markers, allocations and records, gRPC carries every member, the agent compresses it.
Its share is that of all CPU time of the run, as the file tells it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from data_file_writing import Carrier, compress, members_of, pack, streams_of
from measurement import Results, median, parser

from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from sim_server.log.history import KERNEL_SPAN

ROOT = Path(__file__).resolve().parents[1]
ITERATIONS = 10


def make_file(folder: Path, ranks: int) -> Path:
    """The data file of a run of our own."""
    path = folder / "run.phr"
    script = [str(ROOT / "examples" / "train_gpt_ddp.py"), "--steps", str(ITERATIONS + 1)]
    subprocess.run(
        [
            *module_command("phantora_py"),
            *("run", "--quiet", "-o", str(path)),
            *("--ranks", str(ranks), "--", sys.executable, *script),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
    )
    return path


def time_command(*words: str) -> tuple[float, float]:
    """CPU and wall seconds of a command of phantora."""
    before, begin_s = os.times(), time.perf_counter()
    command = [*module_command("phantora_py"), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after, end_s = os.times(), time.perf_counter()
    cpu_s = after.children_user - before.children_user
    return cpu_s + after.children_system - before.children_system, end_s - begin_s


def cpu_s(act: Callable[[], object]) -> float:
    """CPU seconds of this process, all its threads."""
    begin_s = time.process_time()
    act()
    return time.process_time() - begin_s


def measure(path: Path, folder: Path, rounds: int) -> Results:
    """Everything of one file."""
    data = RunData(path)
    results = Results("A data file", ["what", "CPU s", "wall s", "MiB", "aim"])
    views = {
        "summary (--json)": (["--json"], None, "2 s"),
        "page (--html)": (["--html"], "page.html", "10 MB"),
        "trace of the last iteration": (["--trace-iterations", "1", "--trace"], "one.json.gz", "-"),
    }
    for name, (options, output, aim) in views.items():
        files = [] if output is None else [str(folder / output)]
        times = [time_command("report", str(path), *options, *files) for _ in range(rounds)]
        size = None if output is None else (folder / output).stat().st_size / 2**20
        cpu, wall = (median(column) for column in zip(*times, strict=True))
        results.add(name, cpu, wall, size, aim)
    data.spans, data.operations, data.markers, data.timings, data.allocations  # noqa: B018 - now
    members, streams = members_of(path), streams_of(data)
    carrier = Carrier(members, folder)
    acts: dict[str, Callable[[], object]] = {
        "packing, by the server": lambda: pack(data, streams),
        "carrying, to the agent": carrier.carry,
        "compressing, by the agent": lambda: compress(members, folder),
    }
    parts = {name: median(cpu_s(act) for _ in range(rounds)) for name, act in acts.items()}
    carrier.close()
    for name, time_s in parts.items():
        size = path.stat().st_size / 2**20 if name.startswith("compressing") else None
        results.add(name, time_s, None, size, "-")
    whole = data.run["wall"]["core_seconds"]
    share = sum(parts.values()) / whole
    kernels = int((data.spans["kind"] == KERNEL_SPAN).sum())
    results.notes.append(
        f"{data.ranks} ranks, {len(data.spans):,} spans, {kernels:,} of kernels. Writing is "
        f"{share:.1%} of the run's {whole:.1f} core seconds; the aim is 3 %."
    )
    return results


def measure_file(description: str | None, measure: Callable[[Path, Path, int], Results]) -> int:
    """Measures what is made of a data file, the caller's or that of a new run, and prints it."""
    options = parser(description)
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
    sys.exit(measure_file(__doc__, measure))
