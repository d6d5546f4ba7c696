"""What a rank remembers about events, through a small program: waiting/event_progress.h."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from native_programs import CSRC, compile_cxx

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/shim/event_progress.cc, compiled."""
    binary = tmp_path_factory.mktemp("progress") / "event_progress"
    sources = [HERE / "event_progress.cc", CSRC / "shim" / "waiting" / "event_progress.cc"]
    return compile_cxx(sources, binary)


def answers(program: Path, *commands: str) -> list[str]:
    """What the program answers to the `ask` commands."""
    done = subprocess.run(
        [str(program)], input="\n".join(commands), capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_nothing_is_known_at_first(program: Path) -> None:
    """Then the server has to be asked."""
    assert answers(program, "ask 1 1") == ["unknown"]


def test_events_of_a_stream_are_done_in_order(program: Path) -> None:
    """What was told of one instance holds for the older ones, of that stream alone."""
    told = "learn 1 5 0 0"
    asked = ("ask 1 5", "ask 1 3", "ask 1 6", "ask 2 3")
    assert answers(program, told, *asked) == ["done", "done", "unknown", "unknown"]


def test_an_event_is_pending_until_its_time(program: Path) -> None:
    """And with it the later ones; at that very time the server must be asked again."""
    told = "learn 1 5 7 100"
    before = ("clock 99", "ask 1 7", "ask 1 9", "ask 1 6")
    after = ("clock 100", "ask 1 7")
    expected = ["pending", "pending", "unknown", "unknown"]
    assert answers(program, told, *before, *after) == expected


def test_several_events_may_be_pending(program: Path) -> None:
    """Programs ask for their oldest and for their newest event in turns."""
    told = ("learn 1 5 7 100", "learn 1 5 9 300")
    asked = ("ask 1 7", "clock 200", "ask 1 7", "ask 1 9", "clock 400", "ask 1 9")
    assert answers(program, *told, *asked) == ["pending", "unknown", "pending", "unknown"]


def test_drivers_know_only_what_drivers_were_told(program: Path) -> None:
    """When helper threads ask differs from run to run; they in turn may use all there is."""
    told = ("learn 1 5 0 0", "driver 0", "learn 1 8 0 0")
    asked = ("ask 1 5", "ask 1 8", "driver 1", "ask 1 5", "ask 1 8")
    assert answers(program, *told, *asked) == ["done", "done", "done", "unknown"]
