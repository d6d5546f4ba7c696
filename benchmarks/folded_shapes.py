"""What folded runs of whole models cost: time, core time and memory.

    python benchmarks/folded_shapes.py [--shapes fsdp-64 tp-dp-64 ...] [--steps 4] [--json]

examples/train_llama.py on H100s, 8 to a node. `first step` and `a step` are seconds of real time,
from the command to the end of the first training step, and from there to the end of the last one,
each; core seconds are those of the whole command, in all and by simulated rank and step; memory is
the most at one time (PSS).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measurement import Results, parser

from phantora_py.launch.module import module_command

PROGRAM = Path(__file__).parent.parent / "examples" / "train_llama.py"
LLAMA_70B = [
    *("--layers", "80", "--width", "8192", "--hidden", "28672", "--heads", "64"),
    *("--key-value-heads", "8"),
]
ONE, EIGHT = ["--fold", "1"], ["--fold", "dp", "--mesh", "dp={groups},tp=8"]
# Ranks, folding, witnesses, and what the program is told; Llama-2 7B unless told.
SHAPES: dict[str, tuple[int, list[str], int, list[str]]] = {
    "fsdp-64": (64, ONE, 1, []),
    "tp-dp-64": (64, EIGHT, 1, ["--tp", "8", "--fsdp", "1"]),
    "tp-dp-64-as-one": (64, ONE, 1, ["--tp", "8", "--fsdp", "1"]),
    "fsdp-4096": (4096, ONE, 0, []),
    "70b-tp-fsdp-1024": (1024, ONE, 0, [*LLAMA_70B, "--tp", "8"]),
    "70b-tp-fsdp-4096": (4096, ONE, 0, [*LLAMA_70B, "--tp", "8"]),
}
COLUMNS = (
    *("shape", "iteration ms (virtual)", "first step s", "a step s", "core s"),
    *("core s by rank and step", "PSS MiB"),
)


def run(name: str, steps: int) -> tuple[str | float, ...]:
    """The row of one run to its end."""
    ranks, folding, witnesses, options = SHAPES[name]
    folding = [word.format(groups=ranks // 8) for word in folding]
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "run.phr"
        command = [
            *module_command("phantora_py"),
            *("run", "--quiet", "-o", str(output), "--ranks", str(ranks), *folding),
            *("--witness", str(witnesses), "--"),
            *(sys.executable, str(PROGRAM), "--steps", str(steps), *options),
        ]
        begin_s = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None, "it is a pipe"
            ends_s = [time.monotonic() - begin_s for line in process.stdout if "step " in line]
        if process.returncode or len(ends_s) < steps:
            raise RuntimeError(f"{name} ended with exit code {process.returncode}")
        report = [*module_command("phantora_py"), "report", "--json", str(output)]
        summary = json.loads(subprocess.run(report, check=True, capture_output=True).stdout)
    core_s = summary["wall"]["core_seconds"]
    return (
        *(name, summary["iterations"]["median_ns"] / 1e6, ends_s[0]),
        *((ends_s[-1] - ends_s[0]) / (len(ends_s) - 1), core_s, core_s / ranks / steps),
        summary["host_memory"]["total_pss_bytes"] / (1 << 20),
    )


def main() -> None:
    """Prints the results."""
    options = parser(__doc__)
    options.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    options.add_argument("--steps", type=int, default=4)
    arguments = options.parse_args()
    results = Results("folded-shapes", COLUMNS)
    for name in arguments.shapes:
        results.add(*run(name, arguments.steps))
    results.show(arguments.json)


if __name__ == "__main__":
    main()
