"""A helper thread that polls without a pause waits for what it polls.

See csrc/shim/waiting/restless_helpers.cc.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from rank_runs import RankRun
from stand_in_agent import StandInAgent

from sim_server.records import RecordKind, WaitKind

NOT_READY = 1
LATER_NS = 1 << 60
MOST_KEPT = 8  # half the reply slots


class Wait(NamedTuple):
    """A wait of a helper thread, as it stands in the record stream."""

    kind: WaitKind
    event: int
    slot: int

    @classmethod
    def parse(cls, cell: bytes) -> Wait:
        """`cell`: its record."""
        (kind,) = struct.unpack_from("<I", cell, 16)
        event, *_, slot = struct.unpack_from("<5Q", cell, 24)
        return cls(WaitKind(kind), event, slot)


class BusyGpu(StandInAgent):
    """Events are not done, but for the second, once it has been asked for the third."""

    def _on_wait(self, rank: int, cell: bytes) -> None:
        wait = Wait.parse(cell)
        if wait.kind == WaitKind.QUERY_EVENT:
            self._answer(rank, wait.slot, 0, _news(wait.event, is_done=False), status=NOT_READY)
        elif wait.kind == WaitKind.WITHDRAW:
            self._answer(rank, wait.slot, 0, [], status=NOT_READY)
        elif wait.kind != WaitKind.EVENT:
            super()._on_wait(rank, cell)
        elif wait.event == 3:
            waits = [Wait.parse(one) for one in self.records[rank] if one[0] == RecordKind.WAIT]
            slots = [one.slot for one in waits if one[:2] == (WaitKind.EVENT, 2)]
            self._answer(rank, slots[-1], 0, _news(2, is_done=True))


def _news(event: int, *, is_done: bool) -> list[int]:
    """An EventNews in words of 32 bits. The streams are numbered as their events are."""
    done, pending = (event, 0) if is_done else (0, event)
    return list(struct.unpack("<8I", struct.pack("<IIQQQ", event, 0, done, pending, LATER_NS)))


def helper_waits(scenario: str, run_dir: Path) -> list[Wait]:
    """What a helper has waited for, and withdrawn; it must have been told that nothing is done."""
    run = RankRun("restless_rank.py", scenario, run_dir, agent=BusyGpu)
    assert run.results == [{"seen": False}]
    waits = map(Wait.parse, run.of_kind(0, RecordKind.WAIT))
    return [wait for wait in waits if wait.kind in {WaitKind.EVENT, WaitKind.WITHDRAW}]


def test_what_is_asked_after_in_turn_is_waited_for_once(tmp_path: Path) -> None:
    """An end is heard of while the helper asks after something else."""
    waits = helper_waits("in_turn", tmp_path)
    begun, ended = waits[:3], waits[3:]
    assert {wait.kind for wait in begun} == {WaitKind.EVENT}
    assert sorted(wait.event for wait in begun) == [1, 2, 3]
    assert {wait.kind for wait in ended} == {WaitKind.WITHDRAW}
    assert sorted(wait.slot for wait in ended) == sorted(w.slot for w in begun if w.event != 2)


def test_the_oldest_waits_are_withdrawn(tmp_path: Path) -> None:
    """So that reply slots are left, and all of them when the helper ends."""
    waits = helper_waits("many", tmp_path)
    kept: list[int] = []
    for wait in waits:
        if wait.kind == WaitKind.EVENT:
            kept.append(wait.slot)
        else:
            assert wait.slot == kept.pop(0)
        assert len(kept) <= MOST_KEPT + 1
    assert kept == []
    assert [wait.event for wait in waits if wait.kind == WaitKind.EVENT] == [1, *range(4, 14)]
    assert len(waits) == 22
