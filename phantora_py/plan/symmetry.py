"""Which ranks may change places: sums that differ only so have completions that cost the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phantora_py.plan.model import Array
from phantora_py.plan.options import Option


class Symmetry:
    """Of the options of all tables, which such a change turns into each other."""

    def __init__(self, options: Sequence[Sequence[Option]], ranks: int) -> None:
        self._shapes = [[_shape(one) for one in of_table] for of_table in options]
        self._runs = [[0]]
        """Neighbours that may change places as they like."""
        order = list(range(ranks))
        for rank in order[1:]:
            swapped = [*order[: rank - 1], rank, rank - 1, *order[rank + 1 :]]
            if self._keeps(swapped):
                self._runs[-1].append(rank)
            else:
                self._runs.append([rank])
        turns = range(ranks if len(self._runs) > 1 else 1)
        self._turns = [turn for turn in turns if self._keeps([*order[turn:], *order[:turn]])]
        """By so many places all ranks may move on."""

    def _keeps(self, order: Sequence[int]) -> bool:
        """Whether each table has the same options if each rank is the one at its place here."""
        return all(
            {_moved(shape, order) for shape in shapes} == set(shapes) for shapes in self._shapes
        )

    def key(self, ranked: Array) -> bytes:
        """Equal only of sums that are each other's but for such changes."""
        rounded = ranked.round(6)
        parts = [rounded[run] for run in self._runs]
        ordered = np.concatenate([part[np.lexsort(part.T)] for part in parts])
        return min(np.roll(ordered, -turn, axis=0).tobytes() for turn in self._turns)


_Shape = tuple[str, frozenset[frozenset[int]]]


def _shape(option: Option) -> _Shape:
    """Columns are equally wide, rows evenly split: their order does not count."""
    return option.compute_kernel, frozenset(frozenset(column) for column in option.columns)


def _moved(shape: _Shape, order: Sequence[int]) -> _Shape:
    kernel, columns = shape
    return kernel, frozenset(frozenset(order[rank] for rank in column) for column in columns)
