"""How far the iteration time moves when a timing cache loses entries.

    python benchmarks/cache_stability.py RUN.phr ... [--seeds N]

The caches are synthetic (`synthetic_cache`): every kernel of the run as its model says, but for a
bias of its family, one that changes with its size, and noise. Each run is simulated again with the
whole cache and with what is left of it, without host time, so that kernels decide: medians of the
seeds.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from measurement import Results, median, parser
from synthetic_cache import synthetic_entries

from phantora_py.data import RunData
from phantora_py.profile.needs import TimedBy, signatures_of
from phantora_py.report.iterations import find_iterations
from phantora_py.runs.resimulate import resimulate
from sim_server.gpu import GpuProfile
from sim_server.kernels import CachedTimer, KernelTimer
from sim_server.timing_cache import Entry, Environment

DELETED = (0.10, 0.25, 0.50, 1.00)


def iteration_ns(data: RunData, entries: list[Entry], scratch: Path) -> float:
    """Median iteration of the run with this cache."""
    models = KernelTimer(GpuProfile.from_dict(data.settings["gpu"]))
    timer = CachedTimer(models, entries, Environment("", "", data.run["versions"]["cuda"], ""))
    resimulate(data, TimedBy(own=timer, host_time_off=True), scratch)
    durations_ns = find_iterations(RunData(scratch)).durations_ns
    assert len(durations_ns), f"{data.path} has no iteration after its first"
    return median(durations_ns.tolist())


def main() -> int:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("runs", type=Path, nargs="+", help="data files of phantora run")
    options.add_argument("--seeds", type=int, default=20)
    arguments = options.parse_args()
    columns = ["run", "entries", *(f"{share:.0%} deleted, moves by %" for share in DELETED)]
    results = Results("Iteration time against what is left of a cache", columns)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "again.phr"
        for path in arguments.runs:
            data = RunData(path)
            entries = synthetic_entries(data, signatures_of(data))
            whole_ns = iteration_ns(data, entries, scratch)
            moved = []
            for share in DELETED:
                kept = round(len(entries) * (1 - share))
                times_ns = [
                    iteration_ns(data, random.Random(seed).sample(entries, kept), scratch)
                    for seed in range(arguments.seeds if kept else 1)
                ]
                moved.append(median(100 * abs(one / whole_ns - 1) for one in times_ns))
            results.add(path.stem, len(entries), *moved)
    results.notes.append("synthetic caches; the aims are 1, 2, 5 and 10 %")
    results.show(arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
