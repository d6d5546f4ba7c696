"""The largest whole number that fits, found by trying: a search without knowledge of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Without two points for a line: steps upwards. With one, no more than this at a time (assumed: a
# run that is far too large takes long to fail).
_UPWARDS, _MOST_UPWARDS = 2, 4


@dataclass(frozen=True)
class Attempt:
    """What came of a value. `size_bytes`: the memory that it took; of one that does not fit, 0."""

    value: int
    fits: bool
    size_bytes: int
    capacity_bytes: int


@dataclass(frozen=True)
class Found:
    """The largest that fits and the smallest that does not; None if there is none."""

    fits: int | None
    refused: int | None


def largest(
    attempt: Callable[[int], Attempt], start: int, most: int, likely: int | None = None
) -> Found:
    """Tries values from 1 to `most`, `start` first, until two neighbours differ. What fits is taken
    to fit with less, too. `likely`: is tried next where `start` does not fit. Memory grows by a
    line, mostly: where that meets the capacity is tried first, and every second time the middle, so
    that it ends soon whatever the line says.
    """
    fitting: list[Attempt] = []
    refused: int | None = None
    value, turn = min(start, most), 0
    while True:
        made = attempt(value)
        if made.fits:
            fitting = sorted([*fitting, made], key=lambda one: one.value)
        else:
            refused = value
        best = fitting[-1].value if fitting else 0
        if best >= most or refused == best + 1:
            return Found(best or None, refused)
        turn += 1
        if likely is not None and refused == start and not fitting and likely < start:
            value, likely = likely, None
            continue
        value = _next(fitting, refused, most, is_guess=turn % 2 == 1)


def _next(fitting: list[Attempt], refused: int | None, most: int, is_guess: bool) -> int:
    best = fitting[-1].value if fitting else 0
    guess = _line(fitting)
    if refused is None:
        step = _UPWARDS * best if guess is None else guess
        return min(max(step, best + 1), _MOST_UPWARDS * best, most)
    if guess is None or not is_guess:
        guess = (best + refused) // 2
    return min(max(guess, best + 1), refused - 1)


def _line(fitting: list[Attempt]) -> int | None:
    """The last value for which the line through the two largest is within the capacity."""
    if len(fitting) < 2:
        return None
    before, last = fitting[-2:]
    slope = (last.size_bytes - before.size_bytes) / (last.value - before.value)
    if slope <= 0:
        return None
    return last.value + int((last.capacity_bytes - last.size_bytes) / slope)
