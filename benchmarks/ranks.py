"""What a rank costs the machine, by number of ranks and layout, against libraries that do nothing.

    python benchmarks/ranks.py [--ranks 8 64] [--layouts fsdp tp-dp] [--runs 5] [--json]

The examples under `phantora run` on H100s, 8 to a node. What an iteration costs is the core time of
everything there is (ranks, data loaders, host agent, server, the writing of the data file) from
the end of the second step to that of the last. The floor is the same on null_libraries/: the same
number of ranks, forked in the same way, whose libraries do nothing and who do not communicate
(floor_ranks.py). The two sides take turns. The aim is a ratio of 1.3.

`iteration`: seconds of real time; `first step`: seconds from the command to the end of the first
training step. PSS: proportional set size of a rank's processes, data loaders included, in which a
shared page counts in parts, after the second step. Medians of the runs, and the least and the
greatest where there are several.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from measurement import Results, median, parser
from overhead import build_null_libraries

from phantora_py.launch.module import module_command

EXAMPLES = Path(__file__).parent.parent / "examples"
GPUS_PER_NODE = 8
FIRST_STEPS = 2
LAYOUTS = {
    "ddp": ("train_gpt_ddp.py", []),
    "gpt": ("train_gpt_fsdp.py", []),
    "fsdp": ("train_llama.py", []),
    "hsdp": ("train_llama.py", ["--fsdp", "8"]),
    "tp-dp": ("train_llama.py", ["--tp", "8", "--fsdp", "1"]),
    "tp-fsdp": ("train_llama.py", ["--tp", "8"]),
}
COLUMNS = (
    *("layout", "ranks", "core s", "floor s", "ratio"),
    *("iteration s", "first step s", "PSS MiB"),
)


@dataclass(frozen=True)
class Run:
    """One run to its end. `core_s`: per rank and iteration; `iteration_s`: in real time."""

    core_s: float
    iteration_s: float
    first_step_s: float
    pss_mib: float


def phantora_run(ranks: int, program: list[str]) -> Run:
    """The program under `phantora run`."""
    with tempfile.TemporaryDirectory() as directory:
        command = [*module_command("phantora_py"), "run", "--quiet", "--cluster", "h100"]
        command += ["--ranks", str(ranks), "-o", f"{directory}/run.phr", "--", sys.executable]
        return watch([*command, *program], {}, ranks)


def floor_run(ranks: int, program: list[str], libraries: str) -> Run:
    """The program on preloaded `libraries`."""
    launcher = str(Path(__file__).with_name("floor_ranks.py"))
    command = [sys.executable, launcher, str(ranks), str(GPUS_PER_NODE), *program]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return watch(command, {"LD_PRELOAD": libraries, **threads}, ranks)


def watch(command: list[str], environment: dict[str, str], ranks: int) -> Run:
    """Waits for the end of a run. Raises: SystemExit if it fails."""
    started_s = time.monotonic()
    step_ends: list[tuple[float, float]] = []  # in real time, and in core time of all processes
    pss_mib = 0.0
    with tempfile.TemporaryFile("w+") as errors:
        process = psutil.Popen(
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        for line in process.stdout:
            if not line.startswith("step "):
                continue
            step_ends.append((time.monotonic(), tree_core_s(process)))
            if len(step_ends) == FIRST_STEPS:
                pss_mib = ranks_pss_mib(process) / ranks
        if process.wait() != 0 or len(step_ends) <= FIRST_STEPS:
            errors.seek(0)
            raise SystemExit(f"{command} failed:\n{errors.read()[-2000:]}")
    (began_s, began_core_s), (ended_s, ended_core_s) = step_ends[FIRST_STEPS - 1], step_ends[-1]
    iterations = len(step_ends) - FIRST_STEPS
    return Run(
        core_s=(ended_core_s - began_core_s) / (ranks * iterations),
        iteration_s=(ended_s - began_s) / iterations,
        first_step_s=step_ends[0][0] - started_s,
        pss_mib=pss_mib,
    )


def tree_core_s(process: psutil.Process) -> float:
    """Core time of a process and all its descendants, also of those that have ended."""
    total_s = 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total_s += sum(one.cpu_times()[:4])  # user and system, its own and of ended children
    return total_s


def ranks_pss_mib(run: psutil.Process) -> float:
    """Of everything that was forked for the ranks."""
    starters = [child for child in run.children() if "starter" in " ".join(child.cmdline())]
    forked = [process for starter in starters for process in starter.children(recursive=True)]
    pss_bytes = 0
    for process in forked:
        with contextlib.suppress(psutil.NoSuchProcess):  # a loader that has nothing left to load
            pss_bytes += process.memory_full_info().pss
    return pss_bytes / 2**20


@dataclass(frozen=True)
class Cost:
    """What one round found; core seconds per rank and iteration."""

    core_s: float
    floor_s: float
    iteration_s: float
    first_step_s: float
    pss_mib: float

    @property
    def ratio(self) -> float:
        return self.core_s / self.floor_s


def measure(layout: str, ranks: int, layers: int, more_steps: int, libraries: str) -> Cost:
    """One round: a run of each side."""
    script, arguments = LAYOUTS[layout]
    shape = ["--layers", str(layers), "--steps", str(FIRST_STEPS + more_steps)]
    program = [str(EXAMPLES / script), *shape, *arguments]
    floor = floor_run(ranks, program, libraries)
    ours = phantora_run(ranks, program)
    return Cost(ours.core_s, floor.core_s, ours.iteration_s, ours.first_step_s, ours.pss_mib)


def shown(values: list[float]) -> str:
    """The median, and the spread where there is one."""
    text = f"{median(values):.3g}"
    return text if len(values) == 1 else f"{text} ({min(values):.3g} to {max(values):.3g})"


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, nargs="+", default=[8])
    options.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    options.add_argument("--layers", type=int, default=32)
    options.add_argument("--more-steps", type=int, default=5)
    options.add_argument("--runs", type=int, default=1)
    chosen = options.parse_args()
    results = Results(f"Cost of a rank and iteration, {chosen.layers} layers", COLUMNS)
    with tempfile.TemporaryDirectory() as directory:
        libraries = build_null_libraries(directory)
        for layout in chosen.layouts:
            for ranks in chosen.ranks:
                costs = [
                    measure(layout, ranks, chosen.layers, chosen.more_steps, libraries)
                    for _ in range(chosen.runs)
                ]
                names = ("core_s", "floor_s", "ratio", "iteration_s", "first_step_s", "pss_mib")
                columns = ([getattr(cost, name) for cost in costs] for name in names)
                row = (layout, str(ranks), *map(shown, columns))
                print("   ".join(row), file=sys.stderr)  # the next one may take long
                results.add(*row)
    results.show(chosen.json)


if __name__ == "__main__":
    main()
