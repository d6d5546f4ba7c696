"""Ranks as a grid before and after some of its dimensions change, and the groups along them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sim_server.errors import UsageError

DATA_PARALLEL = ("dp", "dp_replicate", "dp_shard", "replicate", "shard", "fsdp", "ddp")
"""Names of dimensions whose size may change: their ranks do the same with other data."""


@dataclass(frozen=True)
class Mesh:
    """Sizes of dimensions by name, outermost first."""

    sizes: Mapping[str, int]

    @cached_property
    def ranks(self) -> int:
        """How many there are in all."""
        return math.prod(self.sizes.values())

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Of a rank, outermost first."""
        found = []
        for size in reversed([*self.sizes.values()]):
            rank, at = divmod(rank, size)
            found.append(at)
        return tuple(reversed(found))

    def rank(self, coordinates: tuple[int, ...]) -> int:
        """Inverse of `coordinates`."""
        number = 0
        for at, size in zip(coordinates, self.sizes.values(), strict=True):
            number = number * size + at
        return number

    def text(self) -> str:
        """As --mesh has it."""
        return ",".join(f"{name}={size}" for name, size in self.sizes.items())


def mesh_of_all(ranks: int, groups: Mapping[str, list[int]]) -> Mesh:
    """Of ranks that are all data-parallel. Raises: UsageError if their groups say otherwise."""
    for name, members in groups.items():
        if members != list(range(ranks)):
            raise UsageError(
                f"process group {name} has {len(members)} of {ranks} ranks: say which dimensions "
                "the program's mesh has with --mesh, outermost first, as in --mesh pp=2,dp=4,tp=2."
            )
    return Mesh({"dp": ranks})


class Growth:
    """From a mesh to one with other sizes of some dimensions."""

    def __init__(self, old: Mesh, change: Mapping[str, int]) -> None:
        """Raises: UsageError if a dimension is not data-parallel, or there is none of the name."""
        for name in change:
            if name not in old.sizes:
                raise UsageError(
                    f"--set {name}={change[name]}: the mesh has no dimension {name}; it has "
                    f"{', '.join(old.sizes)}. Say which there are with --mesh, outermost first."
                )
            if name not in DATA_PARALLEL:
                raise UsageError(
                    f"--set {name}={change[name]}: only data-parallel dimensions can be set "
                    f"({', '.join(DATA_PARALLEL)}). What ranks do at another size of {name} cannot "
                    "be derived from a trace: trace the program at that size."
                )
            if min(old.sizes[name], change[name]) == 1:
                raise UsageError(
                    f"--set {name}={change[name]}: {name} is to have 2 ranks or more, before and "
                    "after. With one, a program calls other operators than with several."
                )
        self.old, self.new = old, Mesh({**old.sizes, **change})
        self.changed = {name for name in change if change[name] != old.sizes[name]}

    def base(self, rank: int) -> int:
        """The old rank that does what the new one `rank` is to do."""
        at = self.new.coordinates(rank)
        return self.old.rank(
            tuple(one % size for one, size in zip(at, self.old.sizes.values(), strict=True))
        )

    def copy(self, rank: int, kept: frozenset[str]) -> str:
        """Which copy of its base a rank is, along dimensions that are not `kept`."""
        rows = zip(self.old.sizes.items(), self.new.coordinates(rank), strict=True)
        found = [at // size for (name, size), at in rows if name not in kept]
        return "." + ".".join(map(str, found)) if any(found) else ""

    def dimensions(self, name: str, members: list[int]) -> frozenset[str]:
        """Those along which a group of old ranks is.

        Raises: UsageError if it is not all ranks along some dimensions.
        """
        places = [self.old.coordinates(rank) for rank in members]
        found = [
            dimension
            for dimension, at in zip(self.old.sizes, zip(*places, strict=True), strict=True)
            if len({*at}) > 1
        ]
        if members != self.along(self.old, places[0], found):
            shown = ", ".join(map(str, members[:8])) + (" ..." if len(members) > 8 else "")
            raise UsageError(
                f"process group {name} has the ranks {shown}, which are not all ranks along "
                f"dimensions of the mesh {self.old.text()}: give the program's with --mesh."
            )
        return frozenset(found)

    def along(
        self, mesh: Mesh, at: tuple[int, ...], dimensions: list[str] | frozenset[str]
    ) -> list[int]:
        rows = zip(mesh.sizes.items(), at, strict=True)
        ranges = [range(size) if name in dimensions else [one] for (name, size), one in rows]
        return [mesh.rank(one) for one in itertools.product(*ranges)]


class Groups:
    """The process groups of a benchmark, before and after."""

    def __init__(self, growth: Growth, groups: Mapping[str, list[int]]) -> None:
        """Raises: UsageError."""
        self._growth = growth
        self.old = groups
        self._dimensions = {name: growth.dimensions(name, groups[name]) for name in groups}
        self.new: dict[str, list[int]] = {}
        for rank in range(growth.new.ranks):
            base = growth.base(rank)
            for name, members in groups.items():
                if base in members and (told := self.name(rank, name)) not in self.new:
                    at = growth.new.coordinates(rank)
                    self.new[told] = growth.along(growth.new, at, self._dimensions[name])

    def name(self, rank: int, old: str) -> str:
        """What the group `old` of a new rank's base is called. Raises: UsageError."""
        if old not in self._dimensions:
            raise UsageError(
                f"the benchmark uses process group {old!r} and does not say which ranks it has: it "
                "is damaged. `phantora replay build` writes one."
            )
        return old + self._growth.copy(rank, self._dimensions[old])

    def grows(self, old: str) -> bool:
        """Whether its size changes."""
        return bool(self._dimensions[old] & self._growth.changed)
