"""PyTorch's own tests on simulated GPUs, each test a run of its own.

    python benchmarks/pytorch_suites.py [--backend nccl] [--match PATTERN] [--every N] [--jobs 2]
    python benchmarks/pytorch_suites.py FILE ... [--gpus 2]

Without a file: `DistributedTest`, which comes with the wheel (torch.testing._internal.distributed).
A file is one of a checkout of the installed release, such as test/distributed/test_c10d_nccl.py.
Wants pytest and expecttest beside phantora.

A test has passed, was skipped by itself, did not find the values that it expects after the program
read some that nobody computed, has failed otherwise, or had not ended after `--limit` seconds. A
line tells of each that has not passed: its first error, and where unknown values were read. The
last line counts. Exit code 1 if a test has failed or hung.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

OUTCOMES: Final = ("passed", "skipped", "values", "failed", "hung")
# An exception where pytest, a rank's log or a traceback tells it.
_ERROR: Final = re.compile(r"(?:E +|\[rank\d+\]:E.*?\d\] )?((?:\w+\.)*\w*(?:Error|Exception)\b.*)")
# What the process that has started a test's processes makes of their end.
_OF_STARTER: Final = re.compile(r"Process \d+ exited with error code|Expected exit code \d+")
# PyTorch's own conftest is for its CI. Tests are named by their whole path, less the first slash.
ALONE: Final = ("-p", "no:cacheprovider", "--noconftest", "--rootdir", "/")
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
        files = [file.resolve() for file in options.files]
        if not files:
            program = Path(folder) / "test_distributed_of_the_wheel.py"
            program.write_text(DISTRIBUTED.format(backend=options.backend, gpus=options.gpus))
            files = [program]
        tests = [
            test for test in collect(files, options, Path(folder)) if re.search(options.match, test)
        ][:: options.every]
        counts: Counter[str] = Counter()
        with ThreadPoolExecutor(options.jobs) as pool:
            data_files = [Path(folder) / f"{number}.phr" for number in range(len(tests))]
            found = pool.map(lambda test, file: run(test, file, options), tests, data_files)
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
    parser.add_argument("--match", default="", help="only tests whose name has this pattern")
    parser.add_argument("--every", type=int, default=1, help="only each Nth test")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240, help="seconds of one test")
    return parser.parse_args()


def phantora(options: argparse.Namespace, data_file: Path, *words: str) -> list[str]:
    """The command that runs pytest with `words` on simulated GPUs."""
    run = ["phantora", "run", "--gpus", str(options.gpus), "--quiet", "-o", str(data_file)]
    return [*run, "--", "python", "-m", "pytest", "-q", *ALONE, *words]


def collect(files: list[Path], options: argparse.Namespace, folder: Path) -> list[str]:
    """The tests of the files, as pytest names them. Raises: SystemExit if there are none."""
    words = phantora(options, folder / "collected.phr", "--collect-only", *map(str, files))
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    tests = [f"/{line}" for line in ended.stdout.splitlines() if "::" in line]
    if not tests:
        raise SystemExit(f"no tests were found:\n{ended.stdout}{ended.stderr}")
    return tests


def run(test: str, data_file: Path, options: argparse.Namespace) -> tuple[str, str]:
    """What became of a test, and why."""
    words = phantora(options, data_file, "--tb=short", test)
    try:
        ended = subprocess.run(
            words,
            cwd=data_file.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=options.limit,
        )
    except subprocess.TimeoutExpired:
        return "hung", f"no end after {options.limit:g} s"
    if ended.returncode == 0:
        return ("skipped" if " skipped" in ended.stdout.splitlines()[-1] else "passed"), ""
    why = first_error(ended.stdout + ended.stderr) or f"exit code {ended.returncode}"
    sites = unknown_reads(data_file)
    data_file.unlink(missing_ok=True)
    return judge(why, sites)


def first_error(output: str) -> str:
    """What ended the run or the test first; empty if nothing says so."""
    lines = output.splitlines()
    ours = [line for line in lines if line.startswith(("phantora: un", "phantora: usage"))]
    if ours:
        return ours[0]
    errors = [found[1] for line in lines if (found := _ERROR.match(line))]
    told = [one for one in errors if not _OF_STARTER.search(one)]
    return (told or errors or [""])[0]


def judge(why: str, sites: list[str]) -> tuple[str, str]:
    """Whether unknown values, read at `sites`, may be why a test has failed. A comparison that has
    failed may come of them; any other error counts as ours until someone has looked at it.
    """
    if sites and why.startswith("AssertionError"):
        return "values", f"{why[:160]} (unknown: {sites[0]})"
    return "failed", why[:200]


def unknown_reads(data_file: Path) -> list[str]:
    """Where a run's program read values that nobody had computed."""
    words = ["phantora", "report", "--json", str(data_file)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        return []
    return [str(one["site"]) for one in json.loads(told.stdout)["trust"]["unknown_reads"]]


if __name__ == "__main__":
    sys.exit(main())
