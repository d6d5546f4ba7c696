"""The agent's side of the channels, against a rank in a second process."""

import multiprocessing
import threading
from pathlib import Path

import pytest

from phantora_py._channel import RING_CELLS, ChannelSet, TestRank

SPAWN = multiprocessing.get_context("spawn")


def numbered(first: int, count: int) -> bytes:
    return b"".join(number.to_bytes(64, "little") for number in range(first, first + count))


def play_rank(run_dir: str, cells: int, at_once: int) -> None:
    """Writes numbered cells, waits for the reply in slot 2 and checks it."""
    rank = TestRank(run_dir, 3)
    for first in range(0, cells, at_once):
        rank.push(numbered(first, min(at_once, cells - first)), first + 1, ring=False)
    rank.push(b"", cells + 1, ring=True)
    assert rank.wait_reply(2, 10_000) == (1, 123, (1 << 64) - 5, b"members")


@pytest.mark.parametrize("at_once", [1000, 3 * RING_CELLS])
def test_cells_cross_in_order_around_the_ring(tmp_path: Path, at_once: int) -> None:
    """Two and a half rings of cells arrive once each and in order; the reply wakes the rank."""
    cells = RING_CELLS * 5 // 2
    channels = ChannelSet(str(tmp_path), [1, 3])
    process = SPAWN.Process(target=play_rank, args=(str(tmp_path), cells, at_once))
    process.start()
    got: list[bytes] = []
    size = clock_ns = 0
    while size < cells * 64 or clock_ns <= cells:
        assert process.is_alive()
        for rank, clock, piece in channels.poll(10):
            assert rank == 3
            clock_ns = clock
            got.append(piece)
            size += len(piece)
    assert b"".join(got) == numbered(0, cells)
    assert channels.owner_pid(3) == process.pid
    assert channels.clock(3) == cells + 1
    channels.answer(3, 2, 1, 123, -5, b"members")
    process.join(10)
    assert process.exitcode == 0
    channels.close()


def test_a_poll_tells_what_is_new_and_sleeps_otherwise(tmp_path: Path) -> None:
    """Records once; a clock that moved alone at the timeout; nothing new: nothing."""
    channels = ChannelSet(str(tmp_path), [0])
    rank = TestRank(str(tmp_path), 0)
    rank.push(b"a" * 64, 5)
    assert channels.poll(10_000) == [(0, 5, b"a" * 64)]
    assert channels.poll(1) == []
    rank.set_clock(9)
    assert channels.poll(1) == [(0, 9, b"")]
    assert channels.poll(0) == []


def test_another_thread_can_wake_a_poll(tmp_path: Path) -> None:
    """Well before its timeout, which is none here."""
    channels = ChannelSet(str(tmp_path), [0])
    timer = threading.Timer(0.05, channels.wake)
    timer.start()
    assert channels.poll(-1) == []
    timer.join()


def test_only_a_quiet_rank_is_set_aside(tmp_path: Path) -> None:
    """Not while records are pending, which may be the very ones that others wait for."""
    channels = ChannelSet(str(tmp_path), [0])
    rank = TestRank(str(tmp_path), 0)
    rank.push(b"a" * 64, 5)
    assert not channels.set_aside(0)
    assert not rank.aside()
    channels.poll(0)
    assert channels.set_aside(0)
    assert rank.aside()


def test_calls_are_counted_for_whom_they_concern(tmp_path: Path) -> None:
    """Of recipients whose cells lie together, as many as cells are told apart; another one's calls
    count for all, and begin and end in the same place.
    """
    cells, probes = 128, 16
    ranks = [0, *range(1, (probes + 1) * cells, cells)]
    channels = ChannelSet(str(tmp_path), ranks)
    caller = TestRank(str(tmp_path), 0)

    def called() -> list[int]:
        return [rank for rank, (_, _, is_called) in channels.calls().items() if is_called]

    exact, last = ranks[1 : probes + 1], ranks[probes + 1]
    for rank in exact:
        caller.count_call(rank, ended=False)
        assert called() == [rank]
        caller.count_call(rank, ended=True)
        assert called() == []
    caller.count_call(last, ended=False)
    assert called() == ranks
    caller.count_call(last, ended=True)
    assert called() == []
    assert channels.calls()[exact[0]][0] == 2
    caller.count_call(exact[0], ended=False)
    channels.hang_up(0)
    assert called() == []


def test_switchboards_of_many_ranks_are_small(tmp_path: Path) -> None:
    """What ranks count of each other grows with the ranks, not with their pairs."""
    ChannelSet(str(tmp_path), [16_383]).close()
    assert (tmp_path / "switchboard").stat().st_size < 32 << 20


def test_misuse_is_refused(tmp_path: Path) -> None:
    """Existing files, foreign ranks, slots and payloads that do not fit, use after close."""
    channels = ChannelSet(str(tmp_path), [0])
    assert (channels.waiting(0), channels.owner_pid(0)) == (0, 0)
    with pytest.raises(FileExistsError, match="switchboard"):
        ChannelSet(str(tmp_path), [1])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ChannelSet(str(tmp_path / "nowhere"), [0])
    with pytest.raises(ValueError, match="rank 7 is not ours"):
        channels.clock(7)
    with pytest.raises(ValueError, match="no reply slot 16"):
        channels.answer(0, 16, 0, 0, 0)
    with pytest.raises(ValueError, match="does not fit"):
        channels.answer(0, 0, 0, 0, 0, b"x" * 16385)
    channels.close()
    with pytest.raises(ValueError, match="closed"):
        channels.poll(0)
