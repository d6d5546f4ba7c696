"""How long until ranks have what they import, beside one plain Python that imports it.

    python benchmarks/imports.py [--ranks 4] [--runs 3] [IMPORT ...]

For each import (`torch`, `from transformers import Trainer`): one Python; ranks of `--ranks`, of
one run and of runs that follow each other; workers that a program starts with `--gpus`, with the
template and without. Times are from the start of the command to the last rank's line, the median of
the runs. They take the whole machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from phantora_py.launch import fork_servers
from phantora_py.launch.fork_servers import FOLDER

USUAL = ("torch", "from transformers import Trainer, GPT2LMHeadModel")
READY = "has it"
SCRIPT = f"""
{{line}}
import sys
from torch import multiprocessing

def work(rank):
    import torch
    torch.ones(1, device=rank)
    print("{READY}", flush=True)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        multiprocessing.spawn(work, nprocs=int(sys.argv[1]))
    else:
        print("{READY}", flush=True)
"""


def last_ready_s(words: Sequence[str], directory: Path) -> float:
    """Until the command has printed its last line that a rank is ready. Raises: SystemExit if it
    fails.
    """
    start_s = last_s = time.monotonic()
    (directory / "run.phr").unlink(missing_ok=True)
    with subprocess.Popen(words, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if READY in line:
                last_s = time.monotonic()
    if process.returncode != 0 or last_s == start_s:
        raise SystemExit(f"{' '.join(words)} ended with exit code {process.returncode}")
    return last_s - start_s


def median_s(words: Sequence[str], directory: Path, runs: int) -> float:
    """Of runs one after the other."""
    return statistics.median(last_ready_s(words, directory) for _ in range(runs))


def measure(line: str, ranks: int, runs: int) -> None:
    """Prints one row."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "program.py").write_text(SCRIPT.format(line=line))
        (directory / "plain.py").write_text(f"{line}\nprint({READY!r})\n")
        run = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr"]
        program = [sys.executable, "program.py"]
        ways = (
            [sys.executable, "plain.py"],
            [*run, "--ranks", str(ranks), "--", *program],
            [*run, "--gpus", str(ranks), "--", *program, str(ranks)],
            [*run, "--no-zygote", "--gpus", str(ranks), "--", *program, str(ranks)],
        )
        plain_s, *others_s = [median_s(words, directory, runs) for words in ways]
        with fork_servers.offered():
            for _ in range(2):
                last_ready_s(ways[1], directory)
            while not any(one.is_socket() for one in Path(os.environ[FOLDER]).iterdir()):
                time.sleep(0.1)
            others_s.insert(1, median_s(ways[1], directory, runs))
    cells = " | ".join(f"{one_s:.1f} s, {one_s / plain_s:.2f}" for one_s in others_s)
    print(f"| `{line}` | {plain_s:.1f} s | {cells} |", flush=True)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("imports", nargs="*", default=list(USUAL))
    options = parser.parse_args()
    print(f"{options.ranks} ranks, {os.cpu_count()} processors; times beside one Python's")
    print("| import | one Python | --ranks | later runs | workers of --gpus | with --no-zygote |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for one in options.imports:
        line = one if one.startswith(("import ", "from ")) else f"import {one}"
        measure(line, options.ranks, options.runs)


if __name__ == "__main__":
    main()
