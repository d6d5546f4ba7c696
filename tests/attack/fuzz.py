"""Feeds wrong inputs to phantora, in one process with limits on memory and time.

    python tests/attack/fuzz.py FORMAT [--seed N] [--examples N]

Prints `{"seed": ..., "said": ...}`, a line for each input that ended in anything but a result or a
PhantoraError. One input again: its seed and `--examples 1`. Of an input that kills the process, or
takes too long, the seed is in the file `current` of the working directory.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

sys.path[1:1] = [
    str(Path(__file__).parents[1] / name) for name in ("attack", "engine", "report", "sim_server")
]

# Else argparse looks for translations of each of its words, which takes longer than most inputs.
os.environ["LANGUAGE"] = "C"

from data_files import DATA_TARGETS  # noqa: E402
from text_files import TEXT_TARGETS  # noqa: E402

from sim_server.errors import PhantoraError  # noqa: E402

Target = Callable[[Path], Callable[[random.Random], None]]
"""Given a directory of its own: what does everything with one wrong input.

Raises: PhantoraError for one that is refused.
"""

TARGETS: dict[str, Target] = {**DATA_TARGETS, **TEXT_TARGETS}

# What is left for one input (assumed: hundred times what a good one takes).
_MOST_BYTES = 1 << 30
_MOST_CPU_S = 20  # its own time: others may use the machine
_MOST_S = 240


class _TooSlow(BaseException):
    pass


def _ring(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def hunt(target: Target, seed: int, examples: int, directory: Path) -> int:
    """Returns how many inputs ended otherwise than they should."""
    with contextlib.redirect_stdout(io.StringIO()):
        act = target(directory)
    faulthandler.enable()
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_BYTES,) * 2)
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGPROF, _ring)
    found = 0
    for number in range(seed, seed + examples):
        (directory / "current").write_text(str(number), encoding="ascii")
        _set_clocks(_MOST_CPU_S, _MOST_S)
        try:
            said = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                act(random.Random(number))
        except PhantoraError as error:
            if error.exit_code == 70:
                found += _tell(number, f"internal: {error}")
        except (Exception, _TooSlow):
            found += _tell(number, f"{said.getvalue()}{traceback.format_exc()}")
        finally:
            _set_clocks(0, 0)
    return found


def _set_clocks(cpu_s: int, wall_s: int) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)


def _tell(seed: int, said: str) -> int:
    print(json.dumps({"seed": seed, "said": said}), flush=True)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("format", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        found = hunt(TARGETS[options.format], options.seed, options.examples, Path(directory))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
