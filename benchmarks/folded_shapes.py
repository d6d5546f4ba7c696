"""What folded runs of whole models cost: time, core time and memory.

    python benchmarks/folded_shapes.py [--shapes fsdp-64 tp-dp-64 ...] [--steps 4] [--json]

examples/train_llama.py and train_llama_pipeline.py on H100s, 8 to a node. `first step` and `a step`
are seconds of real time, from the command to the end of the first training step, and from there to
the end of the last one, each; core seconds are those of the whole command, in all and by simulated
rank and step; memory is the most at one time (PSS).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from measurement import Results, parser

from phantora_py.launch.module import module_command

EXAMPLES = Path(__file__).parent.parent / "examples"
LLAMA, PIPELINE = EXAMPLES / "train_llama.py", EXAMPLES / "train_llama_pipeline.py"
LLAMA_70B = [
    *("--layers", "80", "--width", "8192", "--hidden", "28672", "--heads", "64"),
    *("--key-value-heads", "8"),
]
LLAMA_405B = [
    *("--layers", "126", "--width", "16384", "--hidden", "53248", "--heads", "128"),
    *("--key-value-heads", "8"),
]
# Llama-3's words, made a multiple of 8 x 128 as Megatron does, and its sequences.
LLAMA_3 = ["--vocabulary", "131072", "--sequence", "8192"]
ONE, EIGHT = ["--fold", "1"], ["--fold", "dp", "--mesh", "dp={groups},tp=8"]


class Shape(NamedTuple):
    """A run of a program: Llama-2 7B unless `options` say otherwise."""

    ranks: int
    folding: list[str]
    witnesses: int
    options: list[str]
    program: Path = LLAMA


def stages(count: int) -> tuple[list[str], list[str]]:
    """How a pipeline of 128 replicas of so many stages is folded, and what its program is told."""
    folding = ["--fold", "shard,tp", "--mesh", f"pp={count},shard=128,tp=8"]
    return folding, ["--tp", "8", "--pp", str(count), "--micro-batches", str(max(8, count))]


SHAPES = {
    "fsdp-64": Shape(64, ONE, 1, []),
    "tp-dp-64": Shape(64, EIGHT, 1, ["--tp", "8", "--fsdp", "1"]),
    "tp-dp-64-as-one": Shape(64, ONE, 1, ["--tp", "8", "--fsdp", "1"]),
    "fsdp-4096": Shape(4096, ONE, 0, []),
    "70b-tp-fsdp-1024": Shape(1024, ONE, 0, [*LLAMA_70B, "--tp", "8"]),
    "70b-tp-fsdp-4096": Shape(4096, ONE, 0, [*LLAMA_70B, "--tp", "8"]),
    "70b-pp-tp-fsdp-4096": Shape(
        4096, stages(4)[0], 0, [*LLAMA_70B, *LLAMA_3, *stages(4)[1]], PIPELINE
    ),
    "405b-pp-tp-fsdp-16384": Shape(
        16384, stages(16)[0], 0, [*LLAMA_405B, *LLAMA_3, *stages(16)[1]], PIPELINE
    ),
}
COLUMNS = (
    *("shape", "iteration ms (virtual)", "first step s", "a step s", "core s"),
    *("core s by rank and step", "PSS MiB"),
)


def run(name: str, steps: int) -> tuple[str | float, ...]:
    """The row of one run to its end."""
    ranks, folding, witnesses, options, program = SHAPES[name]
    folding = [word.format(groups=ranks // 8) for word in folding]
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "run.phr"
        command = [
            *module_command("phantora_py"),
            *("run", "--quiet", "-o", str(output), "--ranks", str(ranks), *folding),
            *("--witness", str(witnesses), "--"),
            *(sys.executable, str(program), "--steps", str(steps), *options),
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
