"""Benchmarks of execution traces, replayed, against the programs that were traced.

    python benchmarks/replays.py [--programs NAME ...] [--scaled [RANKS ...]] [--from RANKS]
                                 [--ranking] [--json]

Each program is traced, built, and replayed in the simulator. `class` is the kernel class whose time
differs most. `--scaled` also scales benchmarks of 8 data-parallel ranks (`--from`) to 16, 32 and
64, against the program on as many ranks. `--ranking` replays one program in eight configurations,
on H100s and H200s, and compares the order of their times with that of the programs (Kendall's tau).
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measurement import Results, parser

from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from phantora_py.replay.build import build, coverage
from phantora_py.replay.container import Benchmark, write_benchmark
from phantora_py.replay.mesh import Growth, Mesh
from phantora_py.replay.scale import scale
from phantora_py.replay.score import score
from phantora_py.report.findings import Findings

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, PROGRAMS = ROOT / "examples", ROOT / "tests" / "e2e" / "programs"
SMALL = ("--layers", "2", "--steps", "4", "--batch", "2")


@dataclass(frozen=True)
class Program:
    """Ranks and words of a command."""

    ranks: int
    words: tuple[str | Path, ...]


KINDS = {
    "GPT, DDP": Program(2, (EXAMPLES / "train_gpt_ddp.py", *SMALL)),
    "GPT, FSDP2": Program(2, (EXAMPLES / "train_gpt_fsdp.py", *SMALL)),
    "FSDP1": Program(2, (PROGRAMS / "fsdp1.py", "full")),
    "tensor parallel, FSDP2": Program(4, (PROGRAMS / "tensor_parallel.py",)),
    "pipeline, 1F1B": Program(4, (PROGRAMS / "pipelining.py", "1F1B", "4")),
    "pipeline, interleaved": Program(4, (PROGRAMS / "pipelining.py", "Interleaved1F1B", "8")),
    "experts": Program(4, (PROGRAMS / "experts.py",)),
    "recommender": Program(4, (PROGRAMS / "recommender.py",)),
    "ResNet, DDP": Program(2, (PROGRAMS / "resnet.py",)),
    "CUDA graph": Program(2, (PROGRAMS / "graphs.py", "graph")),
    "compiled": Program(1, (PROGRAMS / "compiled_steps.py",)),
}
SCALED = {
    "GPT, DDP": (EXAMPLES / "train_gpt_ddp.py", *SMALL),
    "GPT, FSDP2": (EXAMPLES / "train_gpt_fsdp.py", *SMALL),
    "FSDP1, flat": (PROGRAMS / "fsdp1.py", "flat"),
}
CONFIGURATIONS = list(itertools.product(("h100", "h200"), ("2", "8"), ("1", "3")))
"""Cluster, batch and layers."""


class Runs:
    """Runs in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def run(
        self, ranks: int, words: Sequence[str | Path], *options: str | Path, cluster: str = "h100"
    ) -> Path:
        """The data file of a run that has ended well."""
        self._count += 1
        path = self._folder / f"run-{self._count}.phr"
        command = [*module_command("phantora_py"), "run", "--quiet", "--cluster", cluster]
        command += ["--host-time", "fixed"]  # Of both: a replay's Python is another.
        command += ["--ranks", str(ranks), "-o", str(path), *map(str, options)]
        subprocess.run(
            [*command, "--", sys.executable, *map(str, words)],
            check=True,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        return path

    def traced(self, program: Program, cluster: str = "h100") -> tuple[Path, Benchmark]:
        """A run and its benchmark."""
        folder = self._folder / f"traces-{self._count}"
        options = ("--execution-trace", folder)
        path = self.run(program.ranks, program.words, *options, cluster=cluster)
        return path, build(folder)

    def replayed(self, benchmark: Benchmark, cluster: str = "h100") -> Path:
        """The run of a replay."""
        file = self._folder / "x.bench"
        write_benchmark(benchmark, file)
        words: list[str | Path] = ["-m", "phantora_py", "replay", "run", file]
        return self.run(benchmark.head["ranks"], words, cluster=cluster)


def percent(pair: dict[str, Any]) -> float | None:
    """By how much a replay's figure is off."""
    return None if pair["change"] is None else 100 * pair["change"]


def replays(runs: Runs, names: Sequence[str]) -> Results:
    """Every program against its replay."""
    columns = ["program", "ranks", "step ms", "step, %", "kernels, %", "class", "class, %"]
    more = ["collectives", "memory, %", "operators", "proxies"]
    results = Results("Replays against their programs", [*columns, *more])
    for name in names:
        original, benchmark = runs.traced(KINDS[name])
        found = score(runs.replayed(benchmark), original)
        classes = {one: abs(percent(pair) or 0.0) for one, pair in found["kernel_ns"].items()}
        worst = max(classes, key=lambda one: classes[one], default="-")
        operators, proxies = coverage(benchmark)
        results.add(
            *(name, KINDS[name].ranks, found["iteration_ns"]["original"] / 1e6),
            *(percent(found["iteration_ns"]), percent(found["kernels"])),
            *(worst, classes.get(worst)),
            *("same" if found["collectives_equal"] else "other",),
            *(percent(found["peak_memory_bytes"]), operators, sum(proxies.values())),
        )
    return results


def scaled(runs: Runs, old: int, sizes: Sequence[int]) -> Results:
    """Benchmarks of few ranks for many, against the program on as many."""
    columns = [
        "program",
        "from",
        "to",
        "step, %",
        "kernels",
        "collectives",
        "sequence",
        "memory, %",
    ]
    results = Results("Scaled replays against the program at that size", columns)
    for name, words in SCALED.items():
        _, benchmark = runs.traced(Program(old, words))
        for new in sizes:
            grown, _ = scale(benchmark, Growth(Mesh({"dp": old}), {"dp": new}))
            ours, theirs = runs.replayed(grown), runs.run(new, words)
            found = score(ours, theirs)
            equal = found["kernels_equal"], found["collectives_equal"]
            same = ("same" if one else "other" for one in (*equal, sequences(ours, theirs)))
            memory = percent(found["peak_memory_bytes"])
            results.add(name, old, new, percent(found["iteration_ns"]), *same, memory)
    return results


def sequences(ours: Path, theirs: Path) -> bool:
    """Whether each group of ranks does the same collectives in the same order."""

    def told(path: Path) -> dict[tuple[int, ...], list[tuple[str, int]]]:
        data = RunData(path)
        operations = Findings(data).window.operations_in(data)
        found: dict[tuple[int, ...], list[tuple[str, int]]] = {}
        for one in sorted(operations, key=lambda one: int(one["moves_ns"])):
            found.setdefault(tuple(one["members"]), []).append((one["kind"], one["bytes"]))
        return found

    return told(ours) == told(theirs)


def ranking(runs: Runs) -> Results:
    """One program in eight configurations, and in which order they are by their times."""
    results = Results("Ranking", ["cluster", "batch", "layers", "step ms", "replay ms"])
    pairs = []
    for cluster, batch, layers in CONFIGURATIONS:
        words = (
            EXAMPLES / "train_gpt_ddp.py",
            "--steps",
            "3",
            "--batch",
            batch,
            "--layers",
            layers,
        )
        original, benchmark = runs.traced(Program(2, words), cluster)
        found = score(runs.replayed(benchmark, cluster), original)["iteration_ns"]
        pairs.append((found["original"], found["replay"]))
        results.add(cluster, batch, layers, *(one / 1e6 for one in pairs[-1]))
    signs = [
        ((one[0] > two[0]) - (one[0] < two[0])) * ((one[1] > two[1]) - (one[1] < two[1]))
        for one, two in itertools.combinations(pairs, 2)
    ]
    results.notes.append(f"Kendall's tau: {sum(signs) / len(signs):.3f}")
    return results


def main() -> int:
    """Runs what is asked for."""
    options = parser(__doc__)
    options.add_argument("--programs", nargs="*", default=list(KINDS), choices=list(KINDS))
    options.add_argument("--scaled", nargs="*", type=int, metavar="RANKS", help="16 32 64")
    options.add_argument(
        "--from", dest="old", type=int, default=8, metavar="RANKS", help="to scale from (8)"
    )
    options.add_argument("--ranking", action="store_true", help="of eight configurations")
    told = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        if told.programs:
            replays(runs, told.programs).show(told.json)
        if told.scaled is not None:
            scaled(runs, told.old, told.scaled or [16, 32, 64]).show(told.json)
        if told.ranking:
            ranking(runs).show(told.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
