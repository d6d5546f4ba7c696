"""Long lists of ranks in few words: runs of a first number, a step and a count."""

from __future__ import annotations

from collections.abc import Sequence


def runs_of(numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """The runs that make up `numbers`, in order: (first, step, count)."""
    runs: list[tuple[int, int, int]] = []
    for number in numbers:
        if runs:
            first, step, count = runs[-1]
            if count == 1 or number == first + step * count:
                runs[-1] = (first, number - first if count == 1 else step, count + 1)
                continue
        runs.append((number, 0, 1))
    return runs
