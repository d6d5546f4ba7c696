"""What it saves that ranks share the kernels that Triton compiles.

    python benchmarks/compile_caches.py [--cases ddp:2 fsdp:4] [--rounds 1] [--json]

CPU seconds of whole runs of tests/e2e/programs/compiled.py from empty caches, all processes
counted: as usual, and with caches and compile workers for each rank, in turns. A rank has its own
where the user says so, which the program does here. Medians of the rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import Results, median, parser

from phantora_py.launch.module import module_command

MODEL = Path(__file__).parents[1] / "tests" / "e2e" / "programs" / "compiled.py"
LIMIT_S = 3600.0

# Where every rank is to have caches of its own, it gets them before anything is compiled.
PROGRAM = """
import os, runpy, sys
program, folder, own, *arguments = sys.argv[1:]
if own == "own":
    folder = os.path.join(folder, os.environ["RANK"])
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
sys.argv = [program, *arguments]
runpy.run_path(program, run_name="__main__")
"""


def cpu_s(wrapper: str, ranks: int, own: bool) -> float:
    """Of one run."""
    variables = {"PYTHONWARNINGS": "ignore"}
    if own:
        variables["TORCHINDUCTOR_COMPILE_THREADS"] = str(os.cpu_count())
    with tempfile.TemporaryDirectory() as folder:
        options = ["--json", "--ranks", str(ranks), "-o", f"{folder}/run.phr"]
        program = [sys.executable, "-c", PROGRAM, str(MODEL), folder, "own" if own else "shared"]
        done = subprocess.run(
            [*module_command("phantora_py"), "run", *options, "--", *program, wrapper],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout)["wall"]["core_seconds"])


def main() -> None:
    """Prints the CPU seconds of both ways and their ratio."""
    options = parser(__doc__)
    options.add_argument("--cases", nargs="+", default=["ddp:2", "fsdp:4"], metavar="WRAPPER:RANKS")
    options.add_argument("--rounds", type=int, default=1)
    chosen = options.parse_args()
    results = Results(
        "CPU seconds from empty caches", ("model", "ranks", "each for itself", "shared", "ratio")
    )
    for case in chosen.cases:
        wrapper, _, ranks = case.partition(":")
        rounds = [
            tuple(cpu_s(wrapper, int(ranks), own) for own in (True, False))
            for _ in range(chosen.rounds)
        ]
        apart, shared = (median(values) for values in zip(*rounds, strict=True))
        ratio = median(one / other for one, other in rounds)
        results.add(wrapper, float(ranks), apart, shared, ratio)
    results.show(chosen.json)


if __name__ == "__main__":
    main()
