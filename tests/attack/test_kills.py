"""A process of a run is killed after any of the run's records: everything ends, with the right exit
code, and nothing is left.

What happens before the first record is in test_interrupts.py.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from amounts import SEED, runs
from interrupted_runs import LIMIT_S, Command

VICTIM = Path(__file__).with_name("victim.py")
# Of each rank: what a program begins with, and two rounds of its loop. It repeats itself then.
RECORDS = 40
CODES = {"leader": 128 + signal.SIGKILL, "server": 70, "starter": 70, "helper": 70, "rank": 4}
KILLS = min(runs(1, one_in=len(CODES)), RECORDS)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """A run whose ranks write records for ever. A shell is between, as phantora would import
    PyTorch before a program that runs by Python: the victim does without, and seconds are saved.
    """
    program = ("sh", "-c", 'exec "$0" "$1"', sys.executable, str(VICTIM))
    begun = Command(("run", "--quiet", "--ranks", "2", "-o", "run.phr", "--", *program), tmp_path)
    yield begun
    begun.kill()


@pytest.mark.parametrize("number", range(KILLS))
@pytest.mark.parametrize("part", CODES)
def test_kill(tmp_path: Path, command: Command, part: str, number: int) -> None:
    """Exit code as documented, all gone within 5 s, no traceback, no file, no data file half."""
    # Spread over all of them, with others for each process and each seed.
    first = SEED + 7 * list(CODES).index(part)
    record = 1 + (first + number * RECORDS // KILLS) % RECORDS
    pid = command.wait_for(part)
    command.wait_for_record(number % 2, record)
    end = command.end(pid, signal.SIGKILL)
    told = f"{part} after record {record}: {end}"
    assert end.code == CODES[part], told
    assert end.took_s < LIMIT_S, told
    assert "Traceback" not in end.output, told
    assert command.left() == [], told
    names = {path.name for path in tmp_path.iterdir()}
    assert names <= {"output.txt", "temporary", "unique_id", "run.phr"}, told
