"""Groups of GPUs that are alike: what one does on its links, others do at the same time on theirs.

While nothing else uses any of these links, the flows of one group show those of all, rates and
loads included; `sim_server.network.flows` lets the others go on by themselves when something does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from sim_server.network.topology import Gpu, Topology

_Path = tuple[int, ...]


class Replicas(NamedTuple):
    """Of a group."""

    links: frozenset[int]
    """Those of the group and of its replicas."""
    mappings: tuple[dict[int, int], ...]
    """By replica: which of its links is like which of the group's."""

    @classmethod
    def of(
        cls, topology: Topology, group: Sequence[Gpu], others: Sequence[Sequence[Gpu]]
    ) -> Replicas | None:
        """None: a group has more than one node, shares links with another, or its links are others.

        The nodes must have the same hardware.
        """
        if any(len({gpu.node for gpu in one}) > 1 for one in (group, *others)):
            return None
        own = _links(topology, group)
        mappings = tuple(_mapping(own, _links(topology, other)) for other in others)
        links = frozenset(own).union(*(one.values() for one in mappings))
        apart = len(links) == (1 + len(others)) * len(set(own))
        capacities = [link.capacity_bytes_per_s for link in topology.links]
        pairs = (pair for one in mappings for pair in one.items())
        alike = all(capacities[link] == capacities[other] for link, other in pairs)
        return cls(links, mappings) if apart and alike else None


def mapped(path: _Path, mapping: Mapping[int, int]) -> _Path:
    """Where a replica's flow goes when the group's takes this path."""
    return tuple(mapping[link] for link in path)


def _links(topology: Topology, group: Sequence[Gpu]) -> list[int]:
    """From each of its GPUs to each other."""
    return [link for pair in permutations(group, 2) for link in topology.find_path(*pair)]


def _mapping(own: Sequence[int], other: Sequence[int]) -> dict[int, int]:
    """One to one; empty: there is none."""
    pairs = set(zip(own, other, strict=False))
    is_one_to_one = len(own) == len(other) and len(pairs) == len(set(own)) == len(set(other))
    return dict(pairs) if is_one_to_one else {}
