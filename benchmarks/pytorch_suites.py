"""PyTorch's own tests on simulated GPUs, each test a run of its own.

    python benchmarks/pytorch_suites.py [--backend nccl] [--match TEXT] [--every N] [--jobs 2]
    python benchmarks/pytorch_suites.py FILE ... [--gpus 2]

Without a file: `DistributedTest`, which comes with the wheel (torch.testing._internal.distributed).
A file is one of a checkout of the installed release, such as test/distributed/test_c10d_nccl.py.
Wants pytest and expecttest beside phantora.

A test has passed, was skipped by itself, has failed after the program read values that nobody
computed, has failed though it read none, or had not ended after `--limit` seconds. The last line
counts them. Exit code 1 if a test has failed for us or hung.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

OUTCOMES: Final = ("passed", "skipped", "values", "failed", "hung")
# What PyTorch's test/distributed/test_distributed_spawn.py does for its own launcher.
DISTRIBUTED = """
import os, tempfile
folder = os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())
os.environ.setdefault("BACKEND", "{backend}")
os.environ.setdefault("WORLD_SIZE", "{gpus}")
from torch.testing._internal.distributed import distributed_test as suite

class TestDistributed(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()

del suite.TestDistBackend
"""


def main() -> int:
    """Runs the tests and prints a line for each that has not passed."""
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        files = options.files
        if not files:
            program = Path(folder) / "test_distributed_of_the_wheel.py"
            program.write_text(DISTRIBUTED.format(backend=options.backend, gpus=options.gpus))
            files = [program]
        tests = [test for test in collect(files, options, Path(folder)) if options.match in test][
            :: options.every
        ]
        counts: Counter[str] = Counter()
        with ThreadPoolExecutor(options.jobs) as pool:
            found = pool.map(lambda test: run(test, options, Path(folder)), tests)
            for test, (outcome, why) in zip(tests, found, strict=True):
                counts[outcome] += 1
                if outcome != "passed":
                    print(f"{outcome:8}{test.rpartition('::')[2]}   {why}", flush=True)
    print(f"{len(tests)} tests: " + ", ".join(f"{counts[one]} {one}" for one in OUTCOMES))
    return 1 if counts["failed"] or counts["hung"] else 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--backend", default="nccl", choices=["nccl", "gloo"])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--match", default="", help="only tests whose name has this")
    parser.add_argument("--every", type=int, default=1, help="only each Nth test")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240, help="seconds of one test")
    return parser.parse_args()


def phantora(options: argparse.Namespace, data_file: Path, *words: str) -> list[str]:
    """The command that runs pytest with `words` on simulated GPUs."""
    run = ["phantora", "run", "--gpus", str(options.gpus), "--quiet", "-o", str(data_file)]
    return [*run, "--", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]


def collect(files: list[Path], options: argparse.Namespace, folder: Path) -> list[str]:
    """The tests of the files, as pytest names them. Raises: SystemExit if there are none."""
    words = phantora(options, folder / "collected.phr", "--collect-only", *map(str, files))
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    tests = [line for line in ended.stdout.splitlines() if "::" in line]
    if not tests:
        raise SystemExit(f"no tests were found:\n{ended.stdout}{ended.stderr}")
    return tests


def run(test: str, options: argparse.Namespace, folder: Path) -> tuple[str, str]:
    """What became of a test, and the last that it said of why."""
    data_file = folder / f"{test.rpartition('::')[2]}.phr"
    words = phantora(options, data_file, "--tb=line", test)
    try:
        ended = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, check=False, timeout=options.limit
        )
    except subprocess.TimeoutExpired:
        return "hung", f"no end after {options.limit:g} s"
    if ended.returncode == 0:
        return ("skipped" if " skipped" in ended.stdout.splitlines()[-1] else "passed"), ""
    said = [line for line in (ended.stdout + ended.stderr).splitlines() if "Error" in line]
    why = said[-1].strip()[-200:] if said else f"exit code {ended.returncode}"
    return ("values" if reads_unknown(data_file) else "failed"), why


def reads_unknown(data_file: Path) -> bool:
    """Whether a run's program read values that nobody had computed."""
    words = ["phantora", "report", "--json", str(data_file)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        return False
    return bool(json.loads(told.stdout)["trust"]["unknown_reads"])


if __name__ == "__main__":
    sys.exit(main())
