"""How many runs of a sweep go on at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from phantora_py.sweep.parallel_runs import ParallelRuns

GIB = 1 << 30


def test_a_number_is_a_number() -> None:
    """The user's holds whatever memory and processors there are."""
    room = ParallelRuns(2, available=lambda: 0, processors=1)
    assert room.most == 2
    room.enter(8)
    assert room.fits(8)
    room.enter(8)
    assert not room.fits(1)
    room.leave(8)
    assert room.fits(1)


def test_memory_decides() -> None:
    """One run until it is known what a rank takes; then those that fit, one in any case."""
    room = ParallelRuns(None, available=lambda: 10 * GIB, processors=16)
    assert room.most == 8
    room.enter(2)
    assert not room.fits(1)
    room.learn(2, 2 * GIB)
    assert room.fits(6)
    assert not room.fits(7)
    room.learn(2, 4 * GIB)
    room.learn(2, GIB)
    assert room.fits(2)
    assert not room.fits(3)
    room.leave(2)
    assert room.fits(64)


def test_processors_decide() -> None:
    """Half as many runs as processors, and one at least."""
    assert [ParallelRuns(None, processors=count).most for count in (1, 2, 3, 4, 64)] == [
        1,
        1,
        1,
        2,
        32,
    ]
    room = ParallelRuns(None, available=lambda: 10 * GIB, processors=4)
    room.learn(1, 1)
    room.enter(1)
    assert room.fits(1)
    room.enter(1)
    assert not room.fits(1)


def test_who_waits_is_let_in() -> None:
    """As soon as another has left."""
    room = ParallelRuns(1)
    room.enter(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(room.enter, 1)
        room.leave(1)
        waiting.result(timeout=60)
    assert not room.fits(1)
