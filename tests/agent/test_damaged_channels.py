"""Shared memory into which a rank has written anything: it is named, and the agent lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attack import attack, words
from hypothesis import given
from hypothesis import strategies as st

from phantora_py._channel import RING_CELLS, ChannelSet, TestRank

RANKS = [0, 1, 2]
LIAR = 1
CELL = b"c" * 64
# What any value may stand in: it is believed, or nobody reads it.
FREE = {"owner_pid", "poll_sleeps", "awaits_any", "asked", "told", "rings", "addresses[0].owner"}


def use(channels: ChannelSet) -> None:
    """All that the agent does with them."""
    for rank in RANKS:
        for slot in range(16):
            channels.answer(rank, slot, 0, 5, 6, b"payload")
    channels.poll(0)
    for rank in RANKS:
        channels.set_aside(rank)
        channels.waiting(rank)
        channels.poll_sleeps(rank)
        channels.owner_pid(rank)
        channels.awaits_values(rank)
        channels.tell_children(rank, channels.gives_way(rank)[1], sleep=False)
    channels.calls()
    channels.poll(0)


def opened(directory: Path) -> tuple[ChannelSet, list[TestRank]]:
    directory.mkdir()
    channels = ChannelSet(str(directory), RANKS)
    ranks = [TestRank(str(directory), rank) for rank in RANKS]
    for rank in ranks:
        rank.push(CELL, 5)
    return channels, ranks


def test_nothing_is_wrong_with_what_ranks_do(tmp_path: Path) -> None:
    """Records, clocks and answers are no damage."""
    channels, ranks = opened(tmp_path / "run")
    use(channels)
    for rank in ranks:
        rank.push(CELL * (RING_CELLS - 1), 9)
    use(channels)
    assert channels.damage() is None


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("channels")


_RUNS = iter(range(1 << 30))


@given(st.sampled_from(TestRank.FIELDS), words())
@attack()
def test_any_value_in_any_field(directory: Path, field: str, value: int) -> None:
    """It does no harm, or the rank is named whose memory it is; records of others still come."""
    channels, ranks = opened(directory / f"{next(_RUNS)}")
    channels.poll(0)
    ranks[LIAR].overwrite(field, value)
    ranks[0].push(CELL, 9)
    assert (0, 9, CELL) in channels.poll(0)
    use(channels)
    damage = channels.damage()
    if damage is not None:
        rank, what = damage
        assert field not in FREE
        assert rank == (None if field == "ranks" else LIAR)
        assert what.startswith("has overwritten")
    channels.close()


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("magic", 7, "has overwritten the head of its channel"),
        ("head", 1 << 40, "has overwritten how many records it has written"),
        ("head", 0, "has overwritten how many records it has written"),
        ("tail", 1 << 40, "has overwritten how far its records were read"),
        ("lock", 9, "has overwritten the lock of its channel"),
        ("host_clock_ns", (1 << 60) + 1, "has overwritten its host clock"),
        ("host_clock_ns", (1 << 64) - 1, "has overwritten its host clock"),
        ("waiting", 1 << 31, "has overwritten what its channel says of its threads"),
        (
            "slots[].recipient",
            1 << 31,
            "has overwritten a reply slot: the call that waits in it concerns rank 2147483647",
        ),
        (
            "calls to everyone begun",
            1 << 31,
            "has overwritten how many calls to other ranks it has begun",
        ),
    ],
)
def test_damage_is_told(tmp_path: Path, field: str, value: int, what: str) -> None:
    """With the rank and what it has overwritten."""
    channels, ranks = opened(tmp_path / "run")
    channels.poll(0)
    ranks[LIAR].overwrite(field, value)
    use(channels)
    assert channels.damage() == (LIAR, what)


def test_the_head_of_the_switchboard(tmp_path: Path) -> None:
    """All ranks share it: nobody can tell which of them it was."""
    channels, ranks = opened(tmp_path / "run")
    ranks[LIAR].overwrite("ranks", 1 << 20)
    use(channels)
    assert channels.damage() == (None, "has overwritten the head of the switchboard")


@pytest.mark.parametrize("left_bytes", [0, 100, 4096, 1 << 20])
@pytest.mark.parametrize("name", ["rank-1.channel", "switchboard"])
def test_a_file_that_is_cut_short(tmp_path: Path, name: str, left_bytes: int) -> None:
    """The agent lives on, and says whose file it was."""
    channels, ranks = opened(tmp_path / "run")
    channels.poll(0)
    for rank in ranks[: LIAR + 1]:
        rank.push(CELL * (RING_CELLS // 2), 9)
    os.truncate(tmp_path / "run" / name, left_bytes)
    use(channels)
    channels.hang_up(LIAR)
    channels.wake()
    damage = channels.damage()
    if name == "switchboard" and left_bytes == 1 << 20:
        return  # the counters of three ranks lie before that, or in the page that is left
    assert damage is not None
    of, what = damage
    assert of == (None if name == "switchboard" else LIAR)
    assert "that it has cut short, or the file system that it is in is full" in what
    channels.close()


def test_a_fault_elsewhere_is_not_ours(tmp_path: Path) -> None:
    """A file that somebody else maps and cuts short still ends the process that reads it."""
    script = (
        "import mmap, os, sys; from phantora_py._channel import ChannelSet;"
        "channels = ChannelSet(sys.argv[1], [0]); path = sys.argv[1] + '/other';"
        "open(path, 'wb').write(b'x' * 8192); file = open(path, 'r+b');"
        "mapped = mmap.mmap(file.fileno(), 8192); os.truncate(path, 0); mapped[5000]"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGBUS
