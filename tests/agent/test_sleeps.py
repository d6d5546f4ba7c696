"""A rank that sleeps again and again in no time, beside a process that is no rank."""

from __future__ import annotations

import os

from phantora_py.agent.sleeps import SleepWatch
from phantora_py.launch.ranks import Beside
from sim_server.records import CELL_BYTES, RecordKind

BESIDE = Beside(os.getpid(), ())
SLEEP = b"".join(
    bytes([kind]).ljust(CELL_BYTES, b"\0") for kind in (RecordKind.MARKER, RecordKind.WAIT)
)
CALL = SLEEP + bytes([RecordKind.KERNEL]).ljust(CELL_BYTES, b"\0")


def notes(
    count: int, each_ns: int, each_s: float = 0.001, call_before: int = 0, ranks: int = 1
) -> tuple[list[str], dict[int, float]]:
    """Of ranks that sleep `count` times, and make a call before one of these sleeps; and by how
    much more than in reality they slept.
    """
    now = {"ns": 0, "s": 0.0}
    watch = SleepWatch(lambda _: int(now["ns"]), lambda: now["s"])
    told = []
    for turn in range(count):
        for rank in range(ranks):
            watch.heard(rank, CALL if turn == call_before else SLEEP)
            told.append(watch.sleeps(rank, BESIDE))
        now["ns"] += each_ns
        now["s"] += each_s
    return [note for note in told if note is not None], watch.slept_s


def test_a_rank_that_polls_is_told_of_once() -> None:
    """Which, how long, beside whom, and what to do."""
    (note,), slept_s = notes(1000, 10**10)
    assert slept_s == {0: 9990.0 - 0.999}
    assert note.startswith(
        "rank 0 has slept 50 times with no GPU call in between, 490 s of virtual"
    )
    assert f" beside process {os.getpid()} (" in note
    assert "wait for that process by a pipe" in note
    said, slept_s = notes(1000, 10**10, ranks=3)
    assert len(said) == len(slept_s) == 3


def test_sleeps_that_are_no_polling() -> None:
    """Few, short, with work between them, or as long in reality."""
    assert notes(49, 10**12) == ([], {})
    assert notes(1000, 10**7) == ([], {})
    assert notes(60, 10**10, call_before=20) == ([], {})
    assert notes(1000, 10**10, each_s=10.0) == ([], {})
