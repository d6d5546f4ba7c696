"""Whether anything grows with the length of a run: memory of server, agent and ranks over time.

    python benchmarks/soak.py [--iterations 10000] [--ranks 2] [--most 1.1] [--json]

`phantora run` with a small training loop (soak_program.py). Once a second memory is read: what
server and agent have for themselves (USS), and of all ranks together the proportional set size
(PSS), in which a shared page counts in parts. The first fifth of the run is left out: allocators
and buffers of pieces fill up then. The ratio is the median of the last quarter of the others to
that of their first quarter; the exit code is 1 if one of the ratios is above --most.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path

import psutil
from measurement import Results, parser

from phantora_py.launch.module import module_command

PROGRAM = Path(__file__).with_name("soak_program.py")
PARTS = ("agent", "server", "ranks")
INTERVAL_S = 1.0
FEWEST_SAMPLES = 8


def sample(agent: psutil.Process) -> dict[str, float]:
    """MiB of every part of the run that is there. The ranks are forked by the starter."""
    found: dict[str, float] = defaultdict(float)
    with contextlib.suppress(psutil.Error):  # the run is about to end
        found["agent"] = agent.memory_full_info().uss / 2**20
        for child in agent.children():
            words = " ".join(child.cmdline())
            if "sim_server" in words:
                found["server"] = child.memory_full_info().uss / 2**20
            elif "starter" in words:
                for rank in child.children(recursive=True):
                    found["ranks"] += rank.memory_full_info().pss / 2**20
    return found


def soak(iterations: int, ranks: int, output: Path) -> dict[str, list[float]]:
    """Samples by part, while the run goes on."""
    words = [*module_command("phantora_py"), "run", "--quiet", "-o", str(output)]
    words += ["--ranks", str(ranks), "--", sys.executable, str(PROGRAM), str(iterations)]
    series: dict[str, list[float]] = defaultdict(list)
    with subprocess.Popen(words) as process:
        agent = psutil.Process(process.pid)
        while process.poll() is None:
            parts = sample(agent)
            if parts.keys() >= set(PARTS):
                for part, mib in parts.items():
                    series[part].append(mib)
            time.sleep(INTERVAL_S)
    if process.returncode != 0:
        sys.exit(f"the run ended with exit code {process.returncode}")
    return {part: samples[len(samples) // 5 :] for part, samples in series.items()}


def main() -> int:
    """Run, print, judge."""
    options = parser(__doc__)
    options.add_argument("--iterations", type=int, default=10_000)
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--most", type=float, default=1.1, metavar="RATIO")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "soak.phr"
        series = soak(chosen.iterations, chosen.ranks, output)
        size_mib = output.stat().st_size / 2**20
        with zipfile.ZipFile(output) as archive:
            members = len(archive.namelist())
    columns = ("part", "first MiB", "25 %", "50 %", "75 %", "last MiB", "ratio")
    results = Results(f"{chosen.iterations} iterations on {chosen.ranks} ranks", columns)
    grew = False
    for part in PARTS:
        samples = series.get(part, [])
        if len(samples) < FEWEST_SAMPLES:
            sys.exit(f"only {len(samples)} samples of {part}: take more iterations")
        quarter = len(samples) // 4
        ratio = statistics.median(samples[-quarter:]) / statistics.median(samples[:quarter])
        grew = grew or ratio > chosen.most
        marks = (samples[len(samples) * share // 4] for share in (1, 2, 3))
        results.add(part, samples[0], *marks, samples[-1], ratio)
    results.notes.append(f"Data file: {size_mib:.1f} MiB in {members} members.")
    results.show(chosen.json)
    return int(grew)


if __name__ == "__main__":
    sys.exit(main())
