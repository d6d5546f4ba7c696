"""One script, one digest: with `--host-time fixed` nothing depends on luck or on the machine."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from first_difference import differences
from phantora_runs import Phantora, Run

pytestmark = pytest.mark.torch

PROGRAM = Path(__file__).parent / "programs" / "training.py"
LAYOUT = ["--nodes", "2", "--gpus-per-node", "2"]
ONE_PROCESSOR = """\
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.execv(sys.argv[1], sys.argv[1:])
"""

# Collects garbage after so many new objects as its argument says; 0: never.
COLLECTING = """\
import gc, sys, torch
gc.set_threshold(int(sys.argv[1]))
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(16))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(3):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
"""

# What may be imported or not, and be there or not, when it begins: Dynamo, which wraps
# `manual_seed`, subclasses that an abstract class asks, variables of the environment, a directory.
SURROUNDED = """\
import collections.abc, os, sys
import torch
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
sums = torch.zeros(8, device=device)
torch.manual_seed(0)
sums.add_(1)
class Own: pass
isinstance(Own(), collections.abc.Iterable)
sums.add_(1)
dict(os.environ)
sums.add_(1)
os.makedirs(os.path.join(sys.argv[1], "a", "b"), exist_ok=True)
sums.add_(1)
torch.cuda.synchronize()
"""

# Looks at its own calls, through all modules; has pools of threads; finds files of earlier runs;
# draws what the machine draws; takes from a module what is there once it is imported; compiles
# patterns and keeps weak references, as others do first in some runs.
ELSEWHERE = """\
import asyncio, glob, inspect, os, random, re, sys, time, weakref
from concurrent.futures import ThreadPoolExecutor, as_completed
import torch
sums = torch.zeros(8, device=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
inspect.stack()
sums.add_(1)
inspect.getmodule(inspect.stack)
sums.add_(1)
glob.glob(os.path.join(sys.argv[1], "*"))
sums.add_(1)
with ThreadPoolExecutor(4) as pool:
    ends = [pool.submit(time.sleep, 1e-5 * (one % 3)) for one in range(100)]
    for end in as_completed(ends):
        end.result()
sums.add_(1)
async def beside():
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 1e-4) for _ in range(20)))
asyncio.run(beside())
sums.add_(1)
drawn = random.SystemRandom()
[drawn.randrange(1025) for _ in range(100)]
sums.add_(1)
sys.path.insert(0, os.path.dirname(sys.argv[0]))
import package
if os.environ.get("PYTHONHASHSEED") == "1": import package.part
package.part
sums.add_(1)
if os.environ.get("PYTHONHASHSEED") == "1":
    re.compile("(a|b)*c")
    weakref.WeakKeyDictionary()[os] = 1
sums.add_(1)
torch.cuda.synchronize()
"""
LAZY = """\
def __getattr__(name):
    import importlib
    return importlib.import_module("package." + name)
"""


@dataclass(frozen=True)
class Variation:
    """What differs from the first run and must not matter."""

    options: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    prefix: list[str] = field(default_factory=list)
    loaded: bool = False
    needs: str | None = None


VARIATIONS = {
    "one processor": Variation(prefix=[sys.executable, "-c", ONE_PROCESSOR]),
    "a loaded machine": Variation(loaded=True),
    "executed ranks with another hash seed": Variation(
        options=["--no-zygote"], environment={"PYTHONHASHSEED": "1"}
    ),
    "ranks in containers of bwrap": Variation(options=["--backend", "bwrap"], needs="bwrap"),
    "another isolation, environment and length of the command": Variation(
        options=["--isolation", "process"],
        arguments=["--ignored", "x" * 5_000],
        environment={f"OF_THE_USER_{i}": "y" * 500 for i in range(100)},
    ),
    "data loaders without workers": Variation(arguments=["--workers", "0"]),
}


def spin() -> None:
    while os.getppid() > 1:
        pass


@contextmanager
def busy_machine() -> Iterator[None]:
    """Every processor has something else to do."""
    processes = [
        multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def run(directory: Path, variation: Variation) -> Run:
    """A run that ends well, in a directory of its own."""
    runs = Phantora(directory)
    done = runs.run(
        [*LAYOUT, *variation.options],
        [PROGRAM, *variation.arguments],
        {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore", **variation.environment},
        variation.prefix,
    )
    runs.close()
    assert done.exit_code == 0, done.errors
    return done


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("first"), Variation())


@pytest.mark.parametrize("name", VARIATIONS)
def test_equal_runs_have_one_digest(first: Run, tmp_path: Path, name: str) -> None:
    """Everything that a run tells is the same, whatever the machine does meanwhile."""
    variation = VARIATIONS[name]
    if variation.needs is not None and shutil.which(variation.needs) is None:
        pytest.skip(f"needs {variation.needs}")
    if variation.loaded:
        with busy_machine():
            other = run(tmp_path, variation)
    else:
        other = run(tmp_path, variation)
    same = other.summary["digest"] == first.summary["digest"]
    guessed = f"by this machine: {other.summary['trust']['by_machine']}"
    assert same, "\n".join([guessed, *map(str, differences(first.path, other.path))])
    assert other.output == first.output
    assert other.summary["iterations"] == first.summary["iterations"]
    assert other.summary["memory"] == first.summary["memory"]
    assert np.array_equal(other.data.spans, first.data.spans)
    assert other.data.operations == first.data.operations
    assert other.data.markers == first.data.markers


def test_the_first_difference_is_found(first: Run, tmp_path: Path) -> None:
    """Had one rank slept longer, the tool would name that rank and the place."""
    changed = tmp_path / "training.py"
    text = PROGRAM.read_text()
    assert text.count("time.sleep(0.0005)") == 1
    longer = "time.sleep(0.0005 if dist.get_rank() != 3 else 0.001)"
    changed.write_text(text.replace("time.sleep(0.0005)", longer))
    runs = Phantora(tmp_path)
    other = runs.run(LAYOUT, [changed], {"PYTHONWARNINGS": "ignore"})
    runs.close()
    assert other.exit_code == 0, other.errors
    assert other.summary["digest"] != first.summary["digest"]
    found = differences(first.path, other.path)[0]
    assert found.rank == 3
    assert found.one is not None
    assert found.other is not None
    assert found.other.time_ns - found.one.time_ns == 500_000


def test_counted_host_time_has_one_digest(tmp_path: Path) -> None:
    """Counts are those of the program, whatever the hash seed, and however its ranks start."""
    counted = ["--host-time", "counted"]
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = run(tmp_path / "first", Variation(options=counted))
    other = Variation(options=[*counted, "--no-zygote"], environment={"PYTHONHASHSEED": "1"})
    second = run(tmp_path / "second", other)
    same = second.summary["digest"] == first.summary["digest"]
    assert same, "\n".join(map(str, differences(first.path, second.path)))
    works = first.data.host_gaps["counted"]["works"]
    assert all(one["times"] for one in works.values()), works


def test_counts_are_the_same_whenever_garbage_is_collected(tmp_path: Path) -> None:
    """Also within our own code, which carries out the many small tensors of an optimizer's step."""
    program = tmp_path / "program.py"
    program.write_text(COLLECTING)
    runs = Phantora(tmp_path)
    thresholds = ("30", "700", "0")
    done = [
        runs.run(["--ranks", "1", "--host-time", "counted"], [program, threshold])
        for threshold in thresholds
    ]
    runs.close()
    for one in done:
        assert one.exit_code == 0, one.errors
        same = one.summary["digest"] == done[0].summary["digest"]
        assert same, "\n".join(map(str, differences(done[0].path, one.path)))


def test_counts_leave_out_what_was_there_before(tmp_path: Path) -> None:
    """Forked ranks have imported more, a second run finds the files of the first."""
    program = tmp_path / "program.py"
    program.write_text(SURROUNDED)
    runs = Phantora(tmp_path)
    options = ["--ranks", "2", "--host-time", "counted"]
    arguments: list[str | Path] = [program, tmp_path / "made"]
    first = runs.run(options, arguments)
    other = runs.run([*options, "--no-zygote"], arguments, {"ONE_MORE": "1"})
    runs.close()
    for one in (first, other):
        assert one.exit_code == 0, one.errors
    same = other.summary["digest"] == first.summary["digest"]
    assert same, "\n".join(map(str, differences(first.path, other.path)))


def test_counts_leave_out_where_a_rank_was_started_and_what_its_pools_do(tmp_path: Path) -> None:
    """Forked ranks have imported more modules, other threads of a pool are free in each run, a
    second run finds more files, and random numbers of the machine are others.
    """
    program = tmp_path / "program.py"
    program.write_text(ELSEWHERE)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text(LAZY)
    (tmp_path / "package" / "part.py").touch()
    runs = Phantora(tmp_path)
    options = ["--ranks", "2", "--host-time", "counted"]
    first = runs.run(options, [program, tmp_path])
    (tmp_path / "one.more").touch()
    other = runs.run([*options, "--no-zygote"], [program, tmp_path], {"PYTHONHASHSEED": "1"})
    runs.close()
    for one in (first, other):
        assert one.exit_code == 0, one.errors
    same = other.summary["digest"] == first.summary["digest"]
    assert same, "\n".join(map(str, differences(first.path, other.path)))
