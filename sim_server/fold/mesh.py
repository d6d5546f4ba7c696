"""Ranks that are not run because others do the same: who stands for whom.

The ranks are a grid, the *mesh*, and some of its dimensions are folded. The rank whose folded
coordinates are all 0 is the *representative* of those that differ from it there alone, its class.
Representatives run as processes, and beside them *witnesses*, whose records are compared with their
representative's. The others are *absent*: what they do is what their representative does.

A rank is its place in a replica and the number of that *replica*, which its folded coordinates
make, outermost first. Other replicas of a group of ranks are its *images*.

Some replicas may be *apart*: ranks that do something else than the others, as the first, which
writes the log, or the last, whose shards are smaller. Each such range is a class of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any


class NotClosedError(ValueError):
    """A group of ranks that a fold does not map to groups; the message is half a sentence."""


@dataclass(frozen=True)
class Dimension:
    """One dimension of the mesh."""

    name: str
    size: int
    folded: bool


@dataclass(frozen=True)
class Apart:
    """Replicas that are a class of their own: from `first` to `last`, of all replicas, or of one
    dimension's coordinates.
    """

    first: int
    last: int
    dimension: str = ""
    """Empty: replicas."""

    @staticmethod
    def parse(text: str) -> Apart:
        """Inverse of `str`. Raises: ValueError."""
        dimension, equals, numbers = text.rpartition("=")
        first, dash, last = numbers.partition("-")
        if bool(equals) != bool(dimension):
            raise ValueError(f"{text!r} is no range")
        return Apart(int(first), int(last) if dash else int(first), dimension)

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{self.dimension}={numbers}" if self.dimension else numbers


@dataclass(frozen=True)
class Fold:
    """A mesh, outermost dimension first, the witnesses, and what is apart."""

    mesh: tuple[Dimension, ...]
    witnesses: tuple[int, ...] = ()
    apart: tuple[Apart, ...] = ()
    searches: bool = False
    """Rank 0 runs to show which groups it makes: it waits for nobody that is absent."""

    @cached_property
    def ranks(self) -> int:
        """How many there are in all."""
        return _product(dimension.size for dimension in self.mesh)

    @cached_property
    def replicas(self) -> int:
        """How often each rank of a replica is there."""
        return _product(dimension.size for dimension in self.mesh if dimension.folded)

    @cached_property
    def representatives(self) -> tuple[int, ...]:
        """Those of all classes, in order."""
        return tuple(rank for rank in range(self.ranks) if self.representative(rank) == rank)

    @cached_property
    def live(self) -> tuple[int, ...]:
        """The ranks that run as processes, in order."""
        return tuple(sorted({*self.representatives, *self.witnesses}))

    @cached_property
    def _is_live(self) -> frozenset[int]:
        return frozenset(self.live)

    def is_live(self, rank: int) -> bool:
        """Whether it runs as a process."""
        return rank in self._is_live

    def representative(self, rank: int) -> int:
        """Who stands for it."""
        replica = self.replica(rank)
        return rank + self._offsets[self._firsts[replica]] - self._offsets[replica]

    def _place(self, rank: int) -> int:
        """The rank at its place in replica 0."""
        return rank - self._offsets[self.replica(rank)]

    @cached_property
    def _firsts(self) -> tuple[int, ...]:
        """By replica, the first that does the same."""
        firsts: dict[int, int] = {}
        return tuple(firsts.setdefault(self._kind(one), one) for one in range(self.replicas))

    def _kind(self, replica: int) -> int:
        """Which range of `apart` it is in; -1: none."""
        coordinates = {"": replica}
        rest = replica
        for dimension in reversed(self.mesh):
            if dimension.folded:
                rest, coordinates[dimension.name] = divmod(rest, dimension.size)
        for kind, one in enumerate(self.apart):
            if one.first <= coordinates[one.dimension] <= one.last:
                return kind
        return -1

    @cached_property
    def class_sizes(self) -> dict[int, int]:
        """By representative, how many ranks do as it does, itself among them."""
        counts = Counter(self._firsts)
        return {one: counts[self.replica(one)] for one in self.representatives}

    def replica(self, rank: int) -> int:
        """Which of those at its place it is."""
        number = 0
        for dimension, stride in zip(self.mesh, self._strides, strict=True):
            if dimension.folded:
                number = number * dimension.size + rank // stride % dimension.size
        return number

    def stands_for(self, rank: int) -> list[int]:
        """The class of a representative; of a witness, only itself."""
        if self.representative(rank) != rank:
            return [rank]
        others, kind = frozenset(self.witnesses), self.replica(rank)
        place = self._place(rank)
        members = (place + self._offsets[i] for i, one in enumerate(self._firsts) if one == kind)
        return [member for member in members if member not in others]

    def images(self, members: Sequence[int]) -> list[tuple[int, ...]]:
        """The other replicas of a group of ranks, each in the group's order.

        Raises: NotClosedError if its ranks are not, class by class, the same replicas, or if these
        are none of the equal parts into which all replicas fall.
        """
        replicas: dict[int, list[int]] = {}
        for member in members:
            replicas.setdefault(self._place(member), []).append(self.replica(member))
        first, *others = (sorted(numbers) for numbers in replicas.values())
        if any(other != first for other in others):
            one = next(rank for rank, numbers in replicas.items() if sorted(numbers) != first)
            raise NotClosedError(
                f"it has {_some(first)} of the ranks that do as rank {next(iter(replicas))} does, "
                f"and {_some(sorted(replicas[one]))} of those that do as rank {one} does"
            )
        bases = _parts([number - first[0] for number in first], self.replicas)
        if bases is None or first[0] not in bases:
            raise NotClosedError(
                f"the {len(first)} of {self.replicas} ranks of a class that are in it "
                f"({_some(first)}) are no block of them"
            )
        places = [(self.replica(member), self._place(member)) for member in members]
        return [
            tuple(place + self._offsets[replica - first[0] + base] for replica, place in places)
            for base in bases
            if base != first[0]
        ]

    def own_images(self, members: Sequence[int]) -> list[tuple[int, ...]]:
        """Of its images, those in which ranks do as the members do: others are of another class.

        Raises: NotClosedError, as `images`.
        """
        images = self.images(members)
        return [image for image in images if self.representative(image[0]) in members]

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        strides = [1]
        for dimension in reversed(self.mesh[1:]):
            strides.append(strides[-1] * dimension.size)
        return tuple(reversed(strides))

    @cached_property
    def _offsets(self) -> tuple[int, ...]:
        """How far each replica is from its representative."""
        offsets = [0]
        for dimension, stride in zip(self.mesh, self._strides, strict=True):
            if dimension.folded:
                offsets = [one + at * stride for one in offsets for at in range(dimension.size)]
        return tuple(offsets)

    def to_dict(self) -> dict[str, Any]:
        """As settings and data files have it."""
        return {
            "mesh": [[one.name, one.size, one.folded] for one in self.mesh],
            "witnesses": list(self.witnesses),
            **({"apart": [str(one) for one in self.apart]} if self.apart else {}),
            **({"searches": True} if self.searches else {}),
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Fold:
        """Inverse of `to_dict`. Raises: ValueError for what is no fold."""
        mesh = tuple(Dimension(str(name), int(size), bool(on)) for name, size, on in values["mesh"])
        apart = tuple(map(Apart.parse, values.get("apart", ())))
        searches = bool(values.get("searches", False))
        fold = Fold(mesh, tuple(map(int, values["witnesses"])), apart, searches)
        fold.check()
        return fold

    def check(self) -> None:
        """Raises: ValueError for what is no fold."""
        if not any(one.folded for one in self.mesh) or any(one.size < 1 for one in self.mesh):
            raise ValueError("a fold has a mesh with a dimension that is folded")
        sizes = {one.name: one.size for one in self.mesh if one.folded} | {"": self.replicas}
        for one in self.apart:
            if not 0 <= one.first <= one.last < sizes.get(one.dimension, 0):
                raise ValueError(f"{one} is no range of what is folded")
        if any(not 0 <= rank < self.ranks for rank in self.witnesses):
            raise ValueError("a witness is a rank of the run")
        if any(self.representative(rank) == rank for rank in self.witnesses):
            raise ValueError("a representative is no witness")


def _product(sizes: Any) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def block_digits(block: Sequence[int]) -> list[tuple[int, int]] | None:
    """Stride and count of each digit, lowest first, if `block` is numbers from 0 on whose digits at
    some places take all values while the others are 0; None if not.
    """
    digits = []
    size = 1
    while len(block) > 1:
        stride = block[1]
        count = next((i for i, one in enumerate(block) if one != i * stride), len(block))
        rest = block[::count]
        if stride % size or len(block) % count:
            return None
        if [one + i * stride for one in rest for i in range(count)] != list(block):
            return None
        digits.append((stride, count))
        size = stride * count
        block = rest
    return digits


def _parts(block: Sequence[int], replicas: int) -> list[int] | None:
    """The first replica of each part if all of them fall into parts like `block`."""
    digits = block_digits(block)
    if digits is None or (digits and replicas % (digits[-1][0] * digits[-1][1])):
        return None
    return [
        number
        for number in range(replicas)
        if all(number // stride % count == 0 for stride, count in digits)
    ]


def _some(numbers: Sequence[int]) -> str:
    """A few of them, in words."""
    shown = ", ".join(map(str, numbers[:4]))
    return f"replicas {shown}{' ...' if len(numbers) > 4 else ''}"
