"""An interrupt ends every command at any moment; so does the end of any process of a run.

amounts.py says how many of each kind there are, and by which seed their moments are chosen.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from amounts import SEED, runs
from interrupted_runs import LIMIT_S, Command, End

RUNS = runs(12)
pytestmark = pytest.mark.timeout(60 + 30 * RUNS)
ENDS = (signal.SIGINT, signal.SIGTERM)
RUN = ("run", "--quiet", "--ranks", "2", "-o", "run.phr", "--", "sh", "-c", "exec sleep 300")
SWEEP = "grid = {run.ranks = [1, 2]}\n"
# Verbs that go on until they are ended.
AT_WORK = (
    ("serve", "--listen", "unix:server.sock", "--token-file", "token"),
    ("sweep", "plan.toml", "--", "sh", "-c", "exec sleep 300"),
    ("profile", "--cache", "cache", "--executor", "sleep 300", "--suite"),
)

Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts commands, in a directory of their own."""
    commands = []

    def begin(*arguments: str) -> Command:
        commands.append(Command(arguments, tmp_path))
        return commands[-1]

    yield begin
    for command in commands:
        command.kill()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data file."""
    directory = tmp_path_factory.mktemp("data")
    command = Command(("run", "--quiet", "-o", "run.phr", "--", "true"), directory)
    assert command.wait().code == 0, command.output
    return directory / "run.phr"


def check(end: End, code: int, command: Command, moment: str) -> None:
    """Code, time, no traceback, nothing left."""
    assert end.code == code, f"{moment}: {end}"
    assert end.took_s < LIMIT_S, f"{moment}: {end}"
    assert "Traceback" not in end.output, f"{moment}: {end}"
    assert "Exception ignored" not in end.output, f"{moment}: {end}"
    assert "fault of phantora" not in end.output, f"{moment}: {end}"
    assert command.left() == [], f"{moment}: {end}"


def moments(kind: str, longest_s: float) -> Iterator[tuple[signal.Signals, float]]:
    """Of which a third are early: in steps of a millisecond."""
    chooser = random.Random(f"{kind} {SEED}")
    for number in range(RUNS):
        is_early = number % 3 == 0
        after_s = number / 3 * 0.001 if is_early else chooser.uniform(0, longest_s)
        yield ENDS[number % 2], after_s


def test_interrupts_of_a_run(start: Start, tmp_path: Path) -> None:
    """130 for Ctrl-C and 143 for SIGTERM, from the first millisecond on."""
    for number, after_s in moments("run", 3.0):
        command = start(*RUN)
        time.sleep(after_s)
        end = command.end(command.wait_for("leader"), number)
        check(end, 128 + number, command, f"{number.name} after {after_s:.3f} s")
        assert {path.name for path in tmp_path.iterdir()} <= {"output.txt", "temporary", "run.phr"}
        (tmp_path / "run.phr").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "DATA", "--html", "page.html"),
        ("compare", "DATA", "DATA"),
        ("resimulate", "DATA", "-o", "again.phr"),
        ("bench", "all_reduce", "--cluster", "h100", "--ranks", "64"),
        *AT_WORK,
    ],
    ids=lambda arguments: arguments[0],
)
def test_interrupts_of_other_verbs(
    start: Start, tmp_path: Path, data: Path, arguments: tuple[str, ...]
) -> None:
    """The same, unless the command has come to its own end before."""
    (tmp_path / "plan.toml").write_text(SWEEP)
    words = [str(data) if word == "DATA" else word for word in arguments]
    for number, after_s in moments(arguments[0], 1.5):
        command = start(*words)
        time.sleep(after_s)
        is_over = not command.is_under_way()
        end = command.end(command.wait_for("leader"), number) if not is_over else command.wait()
        ended_itself = arguments not in AT_WORK and end.code == 0
        code = end.code if ended_itself else 128 + number
        check(end, code, command, f"{number.name} after {after_s:.3f} s")


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize("arguments", AT_WORK, ids=lambda arguments: arguments[0])
def test_interrupts_of_verbs_at_work(
    start: Start, tmp_path: Path, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    """What they have started is gone with them."""
    (tmp_path / "plan.toml").write_text(SWEEP)
    command = start(*arguments)
    command.wait_for("started")
    end = command.end(command.wait_for("leader"), number)
    check(end, 128 + number, command, "at work")


def code_of(part: str, number: signal.Signals) -> int:
    """The exit code of a run of which this process got this signal."""
    if part in ("leader", "sweeper"):
        return 128 + number
    return 4 if part == "rank" else 70


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("part", ["leader", "server", "starter", "helper", "rank"])
def test_kills_of_any_process(start: Start, part: str, number: signal.Signals) -> None:
    """Whichever it is and whenever, also while the others start: noticed, and nothing is left."""
    chooser = random.Random(f"{part} {number} {SEED}")
    for _ in range(max(1, RUNS // 12)):
        command = start(*RUN)
        pid = command.wait_for(part)
        after_s = chooser.uniform(0, 1.0)
        time.sleep(after_s)
        end = command.end(pid, number)
        check(end, code_of(part, number), command, f"{part} after {after_s:.3f} s")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("child", range(1, 7))
def test_kills_of_whatever_the_starter_makes(
    start: Start, child: int, number: signal.Signals
) -> None:
    """As soon as it is there: what holds a rank's namespaces, what makes that, the ranks."""
    command = start(*RUN)
    pid = command.wait_for_child(command.wait_for("starter"), child, ranks=2)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline_s = time.monotonic() + LIMIT_S
    while command.is_under_way() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    if command.is_under_way():  # it had come to its own end before
        assert not Path(f"/proc/{pid}").exists()
        end = command.end(command.wait_for("leader"), signal.SIGTERM)
        check(end, 143, command, f"child {child}")
    else:
        end = command.wait()
        check(end, end.code, command, f"child {child}")
        assert end.code in (4, 70)


def test_a_killed_sweeper(start: Start) -> None:
    """The run goes on without it, and cleans up itself."""
    command = start(*RUN)
    sweeper = command.wait_for("sweeper")
    os.kill(sweeper, signal.SIGKILL)
    command.wait_for("rank")
    end = command.end(command.wait_for("leader"), signal.SIGTERM)
    check(end, 143, command, "sweeper")
