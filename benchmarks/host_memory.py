"""What a model that every rank makes on the CPU costs the machine, by --host-tensors.

    python benchmarks/host_memory.py [--ranks 4] [--modes lazy real] [--json] [-- SHAPE]

`phantora run` with host_memory_program.py: a model of Llama's shape is made on the CPU, moved,
sharded (FSDP2) and trained for two steps. SHAPE are that program's options; without them a rank's
model has 1.3 GB. With `--ranks 64 --modes lazy -- --layers 32` it is Llama-2-7B, 27 GB per rank.

Memory is the greatest sum of the ranks' proportional set sizes (PSS, in which a shared page counts
in parts), looked at every two seconds. CPU time is of the rank's process: for the constructors, and
for moving and sharding; core seconds are those of the whole run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from measurement import Results, median, parser

from phantora_py.launch.module import module_command

PROGRAM = Path(__file__).with_name("host_memory_program.py")
SMALL = ["--layers", "4", "--width", "2048", "--hidden", "5504"]
LOOK_EVERY_S = 2.0


@dataclass(frozen=True)
class Cost:
    """One run. `making_s` and `moving_s`: CPU time, median of the ranks."""

    pss_mib: float
    making_s: float
    moving_s: float
    core_s: float
    wall_s: float


def run(mode: str, ranks: int, shape: list[str]) -> Cost:
    """One run to its end. Raises: SystemExit if it fails."""
    with tempfile.TemporaryDirectory() as directory:
        notes = Path(directory)
        words = [*module_command("phantora_py"), "run", "--quiet", "-o", f"{notes}/run.phr"]
        words += ["--host-tensors", mode, "--ranks", str(ranks), "--"]
        words += [sys.executable, str(PROGRAM), "--notes", directory, *shape]
        started_s, pss_mib = time.monotonic(), 0.0
        with psutil.Popen(words) as process:
            while process.poll() is None:
                time.sleep(LOOK_EVERY_S)
                pss_mib = max(pss_mib, ranks_pss_mib(process))
        if process.returncode != 0:
            sys.exit(f"the run ended with exit code {process.returncode}")
        spent_s = [json.loads((notes / f"rank-{rank}.json").read_text()) for rank in range(ranks)]
        making_s, moving_s = (median(column) for column in zip(*spent_s, strict=True))
        wall_s = time.monotonic() - started_s
        told = json.loads(subprocess.check_output([*words[:3], "report", words[6], "--json"]))
        return Cost(pss_mib, making_s, moving_s, told["wall"]["core_seconds"], wall_s)


def ranks_pss_mib(process: psutil.Process) -> float:
    """Of everything that the starter has forked."""
    total_kib = 0
    with contextlib.suppress(psutil.Error):
        for starter in process.children():
            if "starter" not in " ".join(starter.cmdline()):
                continue
            for rank in starter.children(recursive=True):
                total_kib += pss_kib(rank.pid)
    return total_kib / 1024


def pss_kib(pid: int) -> int:
    """0 for a process that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def main() -> None:
    """Run in turn and print; the last row is the ratio where there are two modes."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, default=4)
    options.add_argument("--modes", nargs="+", default=["lazy", "real"])
    options.add_argument("shape", nargs=argparse.REMAINDER)
    chosen = options.parse_args()
    shape = [word for word in chosen.shape if word != "--"] or SMALL
    columns = ("host tensors", "PSS of ranks, MiB", "making, CPU s", "moving, CPU s")
    title = f"{chosen.ranks} ranks that make {' '.join(shape)} on the CPU"
    results = Results(title, (*columns, "core s, all", "wall s"))
    costs = {mode: run(mode, chosen.ranks, shape) for mode in chosen.modes}
    rows = [tuple(vars(cost).values()) for cost in costs.values()]
    for mode, row in zip(costs, rows, strict=True):
        results.add(mode, *row)
    if len(rows) == 2:
        results.add("ratio", *(other / one for one, other in zip(*rows, strict=True)))
    results.show(chosen.json)


if __name__ == "__main__":
    main()
