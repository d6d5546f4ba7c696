"""Of which ranks a data file tells: of a folded run, those that ran.

Views tell of representatives; witnesses did the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sim_server.files.schema import Fault
from sim_server.fold import Fold, NotClosedError

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Told:
    """The ranks of a run, `count` in all."""

    count: int
    fold: Fold | None

    @staticmethod
    def of(run: Mapping[str, Any]) -> Told:
        """`run`: run.json."""
        return Told(run["ranks"], Fold.from_dict(run["fold"]) if "fold" in run else None)

    @property
    def ranks(self) -> Sequence[int]:
        """Those that views tell of."""
        return range(self.count) if self.fold is None else self.fold.representatives

    def ranks_of(self, rank: int) -> int:
        """How many ranks one of them stands for, itself among them."""
        return 1 if self.fold is None else self.fold.class_sizes[rank]

    def weights(self, ranks: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        """The same of each of `ranks`."""
        weights = np.ones(self.count)
        if self.fold is not None:
            for rank, size in self.fold.class_sizes.items():
                weights[rank] = size
        return weights[ranks]

    def member_weights(self, members: Sequence[int]) -> npt.NDArray[np.float64]:
        """For how many ranks each member of a group is told of; 0: for none."""
        if self.fold is None:
            return np.ones(len(members))
        return np.array([self.fold.class_sizes.get(one, 0) for one in members], np.float64)

    def stand_in(self, rank: int) -> int:
        """The one that is told of in the place of this one."""
        return rank if self.fold is None else self.fold.representative(rank)

    def spans(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Those of these ranks."""
        return rows if self.fold is None else rows[np.isin(rows["rank"], self.ranks)]

    def rows(self, rows: Iterable[_Value], rank: int = 0) -> Iterator[_Value]:
        """Likewise, of rows that have the rank at this place."""
        known = set(self.ranks)
        return (row for row in rows if row[rank] in known)  # type: ignore[index]

    def of_all(self, by_rank: Mapping[int, _Value]) -> dict[int, _Value]:
        """For every rank what is known of the one that is told of."""
        if self.fold is None:
            return dict(by_rank)
        stand_ins = {rank: self.stand_in(rank) for rank in range(self.count)}
        return {rank: by_rank[one] for rank, one in stand_ins.items() if one in by_rank}

    def memory(self, memory: Mapping[str, Any]) -> dict[str, Any]:
        """Of all ranks. `memory`: memory.json, of those that ran."""
        if self.fold is None:
            return dict(memory)
        by_rank = dict(zip(self.fold.live, memory["per_rank"], strict=True))
        return {**memory, "per_rank": list(self.of_all(by_rank).values())}

    def reads(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Of all ranks. `rows`: of those that ran, each with its `rank`."""
        if self.fold is None:
            return list(rows)
        known = set(self.ranks)
        return [
            row | {"rank": member}
            for row in rows
            if row["rank"] in known
            for member in (*self.fold.stands_for(row["rank"]), *self._witnesses_of(row["rank"]))
        ]

    def groups(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """With the images of each. `rows`: groups, each with its `ranks`."""
        if self.fold is None:
            return list(rows)
        found = {tuple(row["ranks"]): row for row in rows}
        for row in rows:
            with contextlib.suppress(NotClosedError):
                for image in self.fold.images(row["ranks"]):
                    found.setdefault(image, row | {"ranks": list(image)})
        return list(found.values())

    def _witnesses_of(self, rank: int) -> list[int]:
        assert self.fold is not None, "only folded runs have witnesses"
        return [one for one in self.fold.witnesses if self.stand_in(one) == rank]


def check_fold(told: Mapping[str, Any], ranks: int) -> None:
    """Of a run of so many ranks. Raises: Fault."""
    try:
        fold = Fold.from_dict(told)
    except ValueError as error:
        raise Fault(f"its fold is none: {error}") from error
    if fold.ranks != ranks:
        raise Fault(f"its fold is one of {fold.ranks} ranks")
