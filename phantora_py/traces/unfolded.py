"""The nodes of a representative as those of the ranks for which it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sim_server.chakra.execution_trace_pb2 import Node
from sim_server.errors import UsageError
from sim_server.fold import Fold

_GROUPS = ("pg_name", "split_of")
_SPLIT = ("color", "key")
_ENDS = ("comm_src", "comm_dst")

Own = Mapping[int, Sequence[int]]
"""Groups by number, each with its ranks in order."""


class Unfolded:
    """All groups of the ranks of a folded run. `members`: by number, those that have a live rank.

    The groups of absent ranks have the numbers after these.
    """

    def __init__(self, fold: Fold, members: Mapping[int, Sequence[int]]) -> None:
        self._fold = alone = replace(fold, witnesses=())
        self._replicas: dict[int, list[tuple[int, Sequence[int], frozenset[int]]]] = {}
        """Of each group of a representative, it and its images: number, ranks in order."""
        number = max(members, default=0)
        for own, ranks in members.items():
            if not any(map(alone.is_live, ranks)):
                continue
            self._replicas[own] = [(own, ranks, frozenset(ranks))]
            for image in alone.images(ranks):
                number += 1
                self._replicas[own].append((number, image, frozenset(image)))

    def each_rank(
        self, nodes: Sequence[Node], representative: int
    ) -> Iterator[tuple[int, dict[int, Sequence[int]]]]:
        """Turns the nodes of `representative` into those of one rank of its class after the other.

        Yields: the rank whose nodes they are until the next one, and its groups by number.
        Raises: UsageError if these cannot be known.
        """
        own = {
            number: first[1]
            for number, (first, *_) in self._replicas.items()
            if representative in first[2]
        }
        named = [
            _Named(node, self._fold, representative)
            for node in nodes
            if any(one.name in _GROUPS for one in node.attr)
        ]
        for rank in self._fold.stands_for(representative):
            groups = {number: self._of(number, rank) for number in own}
            for one in named:
                one.become(rank, representative, groups, own)
            yield rank, dict(groups.values())

    def _of(self, group: int, rank: int) -> tuple[int, Sequence[int]]:
        return next((own, ranks) for own, ranks, there in self._replicas[group] if rank in there)


class _Named:
    """A node that names groups and ranks."""

    def __init__(self, node: Node, fold: Fold, representative: int) -> None:
        """Raises: UsageError for a transfer with a rank that did not run."""
        self._groups = [(one, int(one.string_val)) for one in node.attr if one.name in _GROUPS]
        self._roots = [(one, one.int64_val) for one in node.attr if one.name == "root"]
        self._split = {one.name: one for one in node.attr if one.name in _SPLIT}
        self._ends = [(one, one.int64_val) for one in node.attr if one.name in _ENDS]
        for _, end in self._ends:
            if fold.replica(end) != fold.replica(representative):
                raise UsageError(
                    f"rank {representative} has a transfer with rank {end}, which is not of the "
                    "ranks that do as its own do, so that nothing tells what the ranks for which "
                    "it stands transfer to whom: write a file per class, without --every-rank."
                )

    def become(
        self,
        rank: int,
        representative: int,
        groups: Mapping[int, tuple[int, Sequence[int]]],
        own: Own,
    ) -> None:
        """Names those of a rank with these `groups`, by those of the representative, `own`. In a
        group that has both, the root is the same. What splits has the group's number as colour.
        """
        for attribute, group in self._groups:
            if group in groups:  # 0: a split that made none
                attribute.string_val = str(groups[group][0])
        for attribute, end in self._ends:
            attribute.int64_val = end + rank - representative
        group = self._groups[0][1]
        if self._split and group in groups:
            number, ranks = groups[group]
            self._split["color"].int64_val = number
            self._split["key"].int64_val = list(ranks).index(rank)
        for attribute, root in self._roots:
            attribute.int64_val = groups[group][1][own[group].index(root)]
