"""Which ranks make progress, and which do not, as far as the user is told."""

import struct
from pathlib import Path

import pytest

from phantora_py.agent.cells import only_takes_turns
from phantora_py.agent.stall import StallWatch
from sim_server.records import RecordKind, WaitKind

WORK = bytes([RecordKind.KERNEL]) + bytes(63)
TURN = struct.pack("<BBHIQI", RecordKind.WAIT, 0, 0, 0, 0, WaitKind.OUTSIDE).ljust(64, b"\0")


@pytest.mark.parametrize(
    ("cells", "clock_ns", "progresses"),
    [(TURN, 4000, False), (2 * TURN, 10**6, False), (TURN, 10**9, True), (TURN + WORK, 4000, True)],
)
def test_a_rank_that_polls_makes_progress_only_if_its_clock_does(
    cells: bytes, clock_ns: int, progresses: bool
) -> None:
    """Turns in which a rank comes back and waits again are none; a sleep of the program is one."""
    now_s = [0.0]
    stall = StallWatch(Path("nowhere"), 60, lambda: now_s[0])
    assert only_takes_turns(cells) == (WORK not in cells)
    now_s[0] = 61.0
    stall.heard(0, clock_ns, only_turns=only_takes_turns(cells))
    assert stall.is_over() != progresses
