"""The nodes of a representative as those of the ranks for which it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sim_server.chakra.execution_trace_pb2 import Node
from sim_server.chakra.operations import EMPTY_RECEIVES, EMPTY_SENDS
from sim_server.errors import UsageError
from sim_server.fold import Fold

_GROUPS = ("pg_name", "split_of")
_ENDS = ("comm_src", "comm_dst")
_SPLITS = ("in_split_size", "out_split_size")
_EMPTY = (EMPTY_SENDS, EMPTY_RECEIVES)


class _Group(NamedTuple):
    """A process group: its number, and its ranks in order."""

    number: int
    ranks: Sequence[int]


class Unfolded:
    """All groups of the ranks of a folded run. `members`: by number, those that have a live rank.

    The groups of absent ranks have the numbers after these.
    """

    def __init__(self, fold: Fold, members: Mapping[int, Sequence[int]]) -> None:
        self._fold = alone = replace(fold, witnesses=())
        self._groups: dict[int, dict[int, _Group]] = {}
        """By number of a representative's group: by rank, it or its image that has the rank."""
        number = max(members, default=0)
        for own, ranks in members.items():
            if not any(map(alone.is_live, ranks)):
                continue
            groups = [_Group(own, ranks)]
            for image in alone.own_images(ranks):
                number += 1
                groups.append(_Group(number, image))
            self._groups[own] = {rank: group for group in groups for rank in group.ranks}

    def each_rank(
        self, nodes: Sequence[Node], representative: int
    ) -> Iterator[tuple[int, dict[int, Sequence[int]]]]:
        """Turns the nodes of `representative` into those of one rank of its class after the other.

        Yields: the rank whose nodes they are until the next one, and its groups by number.
        Raises: UsageError if these cannot be known.
        """
        own = {
            number: by_rank for number, by_rank in self._groups.items() if representative in by_rank
        }
        named = [
            _Named(node, self._fold, representative)
            for node in nodes
            if any(one.name in _GROUPS for one in node.attr)
        ]
        for rank in self._fold.stands_for(representative):
            pairs = {
                number: (by_rank[representative], by_rank[rank]) for number, by_rank in own.items()
            }
            for one in named:
                one.become(rank, pairs)
            yield rank, dict(group for _, group in pairs.values())


class _Named:
    """A node that names groups and ranks, or their places in a group."""

    def __init__(self, node: Node, fold: Fold, representative: int) -> None:
        """Raises: UsageError for a transfer with a rank that did not run."""
        self._representative = representative
        self._attributes = {one.name: one for one in node.attr}
        self._names = {name: int(self._text(name)) for name in _GROUPS if name in self._attributes}
        self._numbers = {name: self._number(name) for name in (*_ENDS, "root") if self._has(name)}
        self._lists = {name: self._list(name) for name in (*_SPLITS, *_EMPTY) if self._has(name)}
        for name in _ENDS:
            end = self._numbers.get(name, representative)
            if fold.replica(end) != fold.replica(representative):
                raise UsageError(
                    f"rank {representative} sends to rank {end}, or receives from it, and one "
                    "stands for the other or for ranks of its own: nothing tells to whom others "
                    "send. Write a file for each class, without --every-rank."
                )

    def become(self, rank: int, groups: Mapping[int, tuple[_Group, _Group]]) -> None:
        """Names what is a rank's own. `groups`: by number in the representative's trace, that and
        the rank's. If both are one, the root is the same, and what a rank exchanges with itself
        has another place. What splits a group has the new one's number as colour.
        """
        for name, number in self._names.items():
            if number in groups:  # 0: a split that made none
                self._attributes[name].string_val = str(groups[number][1].number)
        for name in _ENDS:
            if name in self._numbers:
                shift = rank - self._representative
                self._attributes[name].int64_val = self._numbers[name] + shift
        pair = groups.get(self._names["pg_name"])
        if pair is None:
            return
        before, group = pair
        if "split_of" in self._names:
            self._attributes["color"].int64_val = group.number
            self._attributes["key"].int64_val = group.ranks.index(rank)
        if "root" in self._numbers:
            root = before.ranks.index(self._numbers["root"])
            self._attributes["root"].int64_val = group.ranks[root]
        if self._lists:
            self._exchange(before.ranks.index(self._representative), group.ranks.index(rank))

    def _exchange(self, here: int, there: int) -> None:
        """The place of what stays with the rank is `there`, and was `here`."""
        swapped = {here: there, there: here}
        for name, numbers in self._lists.items():
            if name in _EMPTY:
                moved = sorted(swapped.get(place, place) for place in numbers)
            else:
                moved = [numbers[swapped.get(place, place)] for place in range(len(numbers))]
            self._attributes[name].int64_list.values[:] = moved

    def _has(self, name: str) -> bool:
        return name in self._attributes

    def _text(self, name: str) -> str:
        return self._attributes[name].string_val

    def _number(self, name: str) -> int:
        return self._attributes[name].int64_val

    def _list(self, name: str) -> list[int]:
        return list(self._attributes[name].int64_list.values)
