"""`phantora calibrate-host`: fits the times of `--host-time counted` to this processor."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.calibrate import host_program
from phantora_py.calibrate.host_fit import HostFit, Piece, counts_of, fit_host
from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from sim_server.cpu import CALLS, WORKS
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output, write_file

# Rounds of a piece that differ by more, half of them, were disturbed: assumed.
_MOST_SPREAD = 0.15
# What is in a program takes longer than in a piece: 1.6 times on the hosts of an H100 and an H200,
# 1.45 on a quiet one (docs/host-time.md).
_OF_PROGRAMS = 1.5
# Programs differ more than the pieces of work do: the interval is at least as wide (assumed).
_LEAST_WIDTH = 1.3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora calibrate-host`."""
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the TOML file to write"
    )
    parser.add_argument(
        "--title", metavar="TEXT", help="name of the processor; default: what the machine says"
    )
    parser.add_argument(
        "--python", metavar="FILE", default=sys.executable, help="the Python that has PyTorch"
    )
    parser.add_argument("--json", action="store_true", help="print what was fitted as JSON")


def run(options: argparse.Namespace) -> int:
    """Measures, fits, writes the file, and says what came of it."""
    require_output(options.output, "-o")
    pieces, spread, versions = measured_pieces(options.python)
    hook_ns = _hook_ns(pieces)
    fit = fit_host(pieces)
    times_ns = dict(fit.times_ns)
    times_ns["frame"] = max(times_ns["frame"] - hook_ns, 1.0)
    times_ns = {kind: _OF_PROGRAMS * each_ns for kind, each_ns in times_ns.items()}
    title = options.title or _processor()
    source = (
        f"phantora calibrate-host {__version__}, {date.today()}, Python {versions['python']}, "
        f"PyTorch {versions['torch']}: {len(pieces)} pieces, median error {fit.median_error:.0%}"
    )
    write_file(options.output, _toml(title, source, times_ns, fit).encode(), "-o")
    if options.json:
        found = {
            **{"output": str(options.output), "title": title, "source": source},
            **{"times_ns": times_ns, "ratios": dict(fit.ratios), "spread": spread},
        }
        print(json.dumps(found, indent=1))
        return 0
    for line in _lines(fit, times_ns, hook_ns, spread):
        print(line)
    print(f"Wrote {options.output}")
    print(f"Next: phantora run --host-time counted --cpu {options.output} -- python train.py")
    return 0


def measured_pieces(python: str) -> tuple[list[Piece], float, Mapping[str, str]]:
    """Usual times and counts, by what part the rounds of the usual piece differ, and the versions
    of what ran. Raises: UsageError
    """
    with tempfile.TemporaryDirectory() as directory:
        names, data = _measure(python, Path(directory))
    return *_pieces(names, data), data.run["versions"]


def _measure(python: str, directory: Path) -> tuple[list[str], RunData]:
    output = directory / "calibration.phr"
    command = [*module_command("phantora_py"), "run", "--quiet", "--ranks", "1", "-o", str(output)]
    command += ["--host-time", "measured", "--host-samples", "--", python, host_program.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UsageError(f"The pieces of work did not run:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1]), RunData(output)


def _pieces(names: Sequence[str], data: RunData) -> tuple[list[Piece], float]:
    samples: Sequence[Any] = data.host_gaps["samples"]
    count = 1 + len(names)  # before the first mark of a round it is waited
    if len(samples) != count * host_program.ROUNDS:
        raise UsageError(f"{len(samples)} pieces of work were told, which are no whole rounds.")
    found, spreads = [], []
    for number, name in enumerate(names, start=1):
        rounds = samples[number::count][host_program.FIRST_ROUNDS :]
        low, middle, high = statistics.quantiles((one["spent_ns"] for one in rounds), n=4)
        spreads.append((high - low) / middle)
        # A quarter of the rounds is hardly disturbed by what else the machine does.
        usual = min(rounds, key=lambda one: abs(one["spent_ns"] - low))
        found.append(Piece(name, low, counts_of(usual)))
    nothing, *others = found
    return [one.less(nothing) for one in others], statistics.median(spreads)


def _hook_ns(pieces: Sequence[Piece]) -> float:
    """What counting itself takes of a call, which no program without it spends."""
    plain_ns = []
    for _ in range(9):
        before_ns = time.thread_time_ns()
        host_program.call_plain()
        plain_ns.append(time.thread_time_ns() - before_ns)
    counted_ns = pieces[0].spent_ns
    return max(counted_ns - statistics.median(plain_ns), 0.0) / host_program.CALLS


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _toml(title: str, source: str, times_ns: dict[str, float], fit: HostFit) -> str:
    errors = sorted(max(ratio, 1 / ratio) for ratio in fit.ratios.values())
    widest = max(errors[int(0.9 * len(errors))], _LEAST_WIDTH)
    lines = [f"title = {json.dumps(title)}", f"source = {json.dumps(source)}"]
    lines += [f"interval = [{1 / widest:.2f}, {widest:.2f}]", "", "[works]"]
    lines += [f"{work} = {times_ns.get(work, 0.0):.1f}" for work in WORKS]
    lines += ["", "[calls]"]
    lines += [f"{call} = {times_ns.get(f'call {call}', 0.0):.1f}" for call in CALLS]
    return "\n".join(lines) + "\n"


def _lines(fit: HostFit, times_ns: dict[str, float], hook_ns: float, spread: float) -> list[str]:
    lines = [f"{kind:<16} {each_ns:10,.1f} ns" for kind, each_ns in times_ns.items()]
    lines.append(f"counting itself takes {hook_ns:.0f} ns a Python call, which is taken off")
    lines.append(
        f"these are {_OF_PROGRAMS} times what the pieces ask for: programs take so much more"
    )
    lines.append(
        f"pieces: median error {fit.median_error:.1%}, "
        f"from {min(fit.ratios.values()):.2f} to {max(fit.ratios.values()):.2f} of what was timed"
    )
    if spread > _MOST_SPREAD:
        lines.append(
            f"warning: rounds of one piece differ by {spread:.0%}: the processor was not quiet, "
            "so the times are too long; measure again"
        )
    return lines
