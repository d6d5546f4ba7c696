"""Public training programs as they are, on a real GPU and on a simulated one.

    python benchmarks/real_gpu/programs.py real CHECKOUTS LOG     on a machine with a GPU
    python benchmarks/real_gpu/programs.py simulated CHECKOUTS FOLDER [NAME ...]
    python benchmarks/real_gpu/programs.py compare LOG FOLDER     prints the table

CHECKOUTS holds the repositories of docs/accuracy-programs.md at the commits there, with their data
or data of the same size. LOG is what the programs print, each line behind the seconds since the
program's start; FOLDER keeps the reports of simulated runs, `NAME.fixed.json` and so on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, TextIO

LIMIT_S = 40
MODES = ("fixed", "counted")
RATE = -1.0
"""As `Program.unit_ms`: the clock prints iterations per second."""
_ALWAYS = re.compile(r"^ *([\d.]+) (.*)$")
_PARTS = re.compile(r"^=== ([\w-]+): .*$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A program of others and how it says how long an iteration takes."""

    folder: str
    """Where it is started, below the checkouts."""
    arguments: str
    clock: str
    """A regular expression for the lines that it prints. The group is the time in them."""
    unit_ms: float = 1.0
    """What one of the printed unit is, per iteration: 1,000 for seconds."""
    iterations: int = 0
    """Between two lines whose own times tell how long an iteration took; 0: what they say does."""
    sums: bool = False
    """Whether the clock prints what has passed since the start."""


WORDS = "examples/word_language_model"
IMAGES = r"Train Epoch: 1 \["
PROGRAMS: Mapping[str, Program] = {
    "makemore": Program(
        "makemore",
        "makemore.py -i names.txt -o names --device cuda --max-steps 400",
        r"step time ([\d.]+)ms",
    ),
    "makemore-gru": Program(
        "makemore",
        "makemore.py -i names.txt -o gru --type gru --device cuda --max-steps 200",
        r"step time ([\d.]+)ms",
    ),
    "nanogpt-char": Program(
        "nanoGPT",
        "train.py config/train_shakespeare_char.py --compile=False --max_iters=240 --eval_iters=5",
        r"iter \d+: .* time ([\d.]+)ms",
        iterations=10,
    ),
    "nanogpt-bench": Program(
        "nanoGPT", "bench.py --real_data=False --compile=False", r"per iteration: ([\d.]+)ms"
    ),
    "mingpt-adder": Program(
        "minGPT/projects/adder",
        "adder.py --trainer.max_iters=400",
        r"iter_dt ([\d.]+)ms",
        iterations=10,
    ),
    "mingpt-chargpt": Program(
        "minGPT/projects/chargpt",
        "chargpt.py --trainer.max_iters=200",
        r"iter_dt ([\d.]+)ms",
        iterations=10,
    ),
    "mnist": Program("examples/mnist", "main.py --epochs 1", IMAGES, iterations=10),
    "mnist-rnn": Program("examples/mnist_rnn", "main.py --accel --epochs 1", IMAGES, iterations=10),
    "siamese": Program("examples/siamese_network", "main.py --epochs 1", IMAGES, iterations=10),
    "vae": Program("examples/vae", "main.py --epochs 2", IMAGES, iterations=10),
    "word-lstm": Program(WORDS, "main.py --accel --epochs 1", r"ms/batch +([\d.]+)"),
    "word-transformer": Program(
        WORDS, "main.py --accel --epochs 1 --model Transformer --lr 5", r"ms/batch +([\d.]+)"
    ),
    "dcgan": Program(
        "examples/dcgan",
        "main.py --dataset fake --accel --niter 1 --outf /tmp",
        r"\[0/1\]\[\d+/\d+\]",
        iterations=1,
    ),
    "super-resolution": Program(
        "examples/super_resolution",
        "main.py --upscale_factor 3 --batchSize 4 --testBatchSize 100 --nEpochs 2 --lr 0.001"
        " --accel",
        r"===> Epoch\[",
        iterations=1,
    ),
    "gat": Program("examples/gat", "main.py --epochs 100", r"Epoch: \d+ \(([\d.]+)s\)", 1000),
    "imagenet-resnet18": Program(
        "examples/imagenet",
        "main.py --dummy -a resnet18 --epochs 1",
        r"Epoch: \[0\]\[ *\d+/",
        iterations=10,
    ),
    "timm-resnet50": Program(
        "timm",
        "benchmark.py --bench train --model resnet50 -b 128 --amp --channels-last",
        r'"train_step_time": ([\d.]+)',
    ),
    "timm-vit": Program(
        "timm",
        "benchmark.py --bench train --model vit_base_patch16_224 -b 64 --amp",
        r'"train_step_time": ([\d.]+)',
    ),
    "tcn-copy": Program("TCN/TCN/copy_memory", "copymem_test.py --epochs 1", r"ms/batch +([\d.]+)"),
    "tcn-add": Program(
        "TCN/TCN/adding_problem", "add_test.py --epochs 1", r"Train Epoch: ", iterations=100
    ),
    "airbench94": Program(
        "airbench", "legacy/airbench94.py", r"\| +\d+ +\|.*\| +([\d.]+) +\|$", 1000 / 48, sums=True
    ),
    "pyg-gcn": Program("pyg/examples", "gcn.py", r"Epoch: \d+", iterations=1),
    "pyg-gat": Program("pyg/examples", "gat.py", r"Epoch: \d+", iterations=1),
    "pygcn": Program("pygcn/pygcn", "train.py", r"time: ([\d.]+)s", 1000),
    "fabric-language": Program(
        "lightning",
        "examples/fabric/language_model/train.py",
        r"epoch: 0 - iteration: ",
        iterations=200,
    ),
    "lightning-transformer": Program(
        "lightning", "examples/pytorch/basics/transformer.py", r"Epoch 0:.* ([\d.]+)it/s", RATE
    ),
    "torchdiffeq": Program(
        "torchdiffeq/examples", "ode_demo.py --niters 60", r"Iter \d+", iterations=20
    ),
    "odenet-mnist": Program(
        "torchdiffeq/examples", "odenet_mnist.py --nepochs 1", r"Time [\d.]+ \(([\d.]+)\)", 1000
    ),
}


def real(checkouts: Path, log: TextIO) -> None:
    """Run all one after the other, for `LIMIT_S` at most, and write what they print to `log`."""
    for name, program in PROGRAMS.items():
        log.write(f"=== {name}: {program.arguments}\n")
        words = ["timeout", "-s", "INT", str(LIMIT_S), sys.executable, "-u"]
        start = time.monotonic()
        with subprocess.Popen(
            words + program.arguments.split(),
            cwd=checkouts / program.folder,
            env=environment(checkouts),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,  # also ends lines at the returns of progress bars
        ) as run:
            assert run.stdout is not None
            for line in run.stdout:
                log.write(f"{time.monotonic() - start:9.4f} {line}")
        log.write(f"--- {name}: exit code {run.returncode}\n")


def simulated(checkouts: Path, folder: Path, names: Sequence[str]) -> None:
    """Run them on a simulated H200, until their iterations are steady."""
    for name in names or PROGRAMS:
        program = PROGRAMS[name]
        for mode in MODES:
            words = ["phantora", "run", "--cluster", "h200", "--gpus", "1", "--until-steady"]
            words += ["--host-time", mode, "--json", "-o", str(folder / f"{name}.{mode}.phr")]
            words += ["--", "python", "-u", *program.arguments.split()]
            with (folder / f"{name}.{mode}.json").open("w", encoding="utf-8") as report:
                subprocess.run(
                    words,
                    check=False,
                    cwd=checkouts / program.folder,
                    env=environment(checkouts),
                    stdin=subprocess.DEVNULL,
                    stdout=report,
                )


def environment(checkouts: Path) -> dict[str, str]:
    """With the packages that a program imports from its own repository."""
    packages = ":".join(str(checkouts / each) for each in ("minGPT", "torchdiffeq", "TCN", "pygcn"))
    return {**os.environ, "PYTHONPATH": packages}


def iteration_ms(program: Program, lines: Sequence[str]) -> tuple[float | None, float | None]:
    """What an iteration takes, and what the program's own clock says; None if it has not printed
    two of the lines, or no time. The first tenth of the lines, at least one, does not count.
    """
    stamps: list[float] = []
    values: list[float] = []
    for line in lines:
        stamped = _ALWAYS.match(line)
        found = stamped and re.search(program.clock, stamped[2])
        if stamped and found:
            stamps.append(float(stamped[1]))
            values.extend(float(each) for each in found.groups())
    if program.sums:
        times = [(b - a) * program.unit_ms for a, b in pairwise(values) if b > a]
    elif program.unit_ms == RATE:
        times = [1000 / each for each in values]
    else:
        times = [each * program.unit_ms for each in values]
    clock = _settled(times)
    if not program.iterations:
        return clock, clock
    return _settled([(b - a) * 1000 / program.iterations for a, b in pairwise(stamps)]), clock


def _settled(times: Sequence[float]) -> float | None:
    kept = times[max(1, len(times) // 10) :] or times
    return median(kept) if kept else None


def compare(log: str, folder: Path) -> list[str]:
    """The table of the programs that printed what they took."""
    parts = _PARTS.split(log)
    lines = {name: text.splitlines() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    rows = ["| program | real | `fixed` | ratio | 90 % | `counted` | ratio | 90 % |"]
    rows.append("| --- |" + " ---: |" * 7)
    for name, program in PROGRAMS.items():
        took, _ = iteration_ms(program, lines.get(name, []))
        if took is None:
            continue
        cells = [name, f"{took:.2f}"]
        for mode in MODES:
            cells += _cells(folder / f"{name}.{mode}.json", took)
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _cells(path: Path, took: float) -> list[str]:
    """Of one run: its headline, the ratio to what was measured, and its interval. None of them if
    the run failed or found no iterations.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    report: dict[str, Any] = json.loads(text) if text else {}
    if not report.get("iterations") or not report["trust"]["interval"]:
        return ["fails", "", ""]
    said, interval = report["iterations"]["median_ns"] / 1e6, report["trust"]["interval"]
    low, high = interval["low_ns"] / 1e6, interval["high_ns"] / 1e6
    missed = "" if low <= took <= high else ", **misses**"
    return [f"{said:.2f}", f"{said / took:.2f}", f"{low:.2f} to {high:.2f}{missed}"]


def main(verb: str, *arguments: str) -> None:
    """See the module."""
    if verb == "real":
        with Path(arguments[1]).open("w", encoding="utf-8") as log:
            real(Path(arguments[0]).resolve(), log)
    elif verb == "simulated":
        simulated(Path(arguments[0]).resolve(), Path(arguments[1]).resolve(), arguments[2:])
    elif verb == "compare":
        log_text = Path(arguments[0]).read_text(encoding="utf-8")
        print("\n".join(compare(log_text, Path(arguments[1]))))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
