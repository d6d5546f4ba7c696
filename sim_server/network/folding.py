"""Flows that are alike are one: the exchange of a group with itself, folded.

A symmetry of the network exchanges GPUs that share a NIC, NICs of a node, nodes of a leaf, and
leaves, whenever as many ranks of the group sit behind the one as behind the other. It maps the
group's exchange (every rank sends the same to every other) to itself. So flows that it maps to each
other have one rate at all times, and links likewise one load: a class of flows is one flow, and of
a class of links one member stands for all. That is exact as long as nothing else uses these links;
`sim_server.network.flows` takes the classes apart when something does.

It holds where a route depends on no more than where its ends sit in that hierarchy, which ECMP and
destination-based routing between leaves do not give.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from sim_server.network.topology import Gpu, Place, Topology

_Key = tuple[Hashable, ...]


class FlowClass(NamedTuple):
    """Flows that one symmetry or another maps to each other."""

    source: Gpu
    """End of one of them, which shows what the others are like."""
    destination: Gpu
    flows: int
    """How many they are."""
    path: tuple[int, ...]
    """Its links, each replaced by the one that stands for its class."""
    flows_on_link: tuple[int, ...]
    """How many flows of the class every link of the path carries."""


class _Seat(NamedTuple):
    """Where a rank sits, and what kind of seat that is."""

    gpu: Gpu
    place: Place
    kind: int
    """Equal for GPUs that a symmetry exchanges."""


class Fold:
    """The classes of the exchange between GPUs of a symmetric topology."""

    def __init__(self, topology: Topology, gpus: Sequence[Gpu]) -> None:
        assert topology.is_symmetric, "routes must depend on the places of their ends only"
        self._topology = topology
        places = {gpu: topology.place(gpu) for gpu in gpus}
        self._vertex_keys = _vertex_keys(places)
        self._vertices = Counter(self._vertex_keys.values())
        kinds: dict[_Key, int] = {}
        self._seats = [
            _Seat(gpu, place, kinds.setdefault(self._vertex_keys[place.gpu], len(kinds)))
            for gpu, place in places.items()
        ]
        self._stand_ins: dict[_Key, int] = {}
        # Of a class: by kind of source, what its ends share, and kind of destination.
        self._index: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        self.classes = tuple(self._find_classes())
        self.links = frozenset(self._find_links())
        """All links that the flows use."""

    def paths(self) -> list[list[tuple[int, ...]]]:
        """Of every flow, by the index of its class: what `Topology.find_path` finds.

        An exchange has as many as its ranks squared, so that the ways of its ranks are only joined.
        """
        paths: list[list[tuple[int, ...]]] = [[] for _ in self.classes]
        for source, one, kind in self._seats:
            elsewhere, in_leaf = self._index[kind, 0], self._index[kind, 1]
            for destination, other, other_kind in self._seats:
                if other.leaf != one.leaf:
                    paths[elsewhere[other_kind]].append(one.to_core + other.from_core)
                elif other.inside != one.inside:
                    paths[in_leaf[other_kind]].append(one.up + other.down)
                elif destination != source:
                    index = self._index[kind, _shared(one, other)][other_kind]
                    paths[index].append(self._topology.path(source, destination))
        return paths

    def _find_classes(self) -> Iterator[FlowClass]:
        """Ranks of one kind send alike, so that one of each is looked at."""
        numbers = count()
        senders = Counter(seat.kind for seat in self._seats)
        one_of_each = {seat.kind: seat for seat in reversed(self._seats)}
        for kind, source in one_of_each.items():
            pairs: dict[tuple[int, int], list[Gpu]] = defaultdict(list)
            for other in self._seats:
                if other is not source:
                    pairs[_shared(source.place, other.place), other.kind].append(other.gpu)
            for (shared, other_kind), destinations in pairs.items():
                self._index[kind, shared][other_kind] = next(numbers)
                path = self._topology.path(source.gpu, destinations[0])
                flows = senders[kind] * len(destinations)
                stand_ins = tuple(map(self._stand_in, path))
                on_link = tuple(self._share(link, flows) for link in path)
                yield FlowClass(source.gpu, destinations[0], flows, stand_ins, on_link)

    def _find_links(self) -> Iterator[int]:
        """Rings through the GPUs of each node and through the leaves meet all links but a GPU's to
        its leaf.
        """
        mates: dict[str, list[Gpu]] = defaultdict(list)
        for gpu, place, _ in self._seats:
            mates[place.inside].append(gpu)
        one_of_leaf = {place.leaf: gpu for gpu, place, _ in self._seats}
        for ring in (*mates.values(), list(one_of_leaf.values())):
            for one, other in zip(ring, ring[1:] + ring[:1], strict=True):
                if one != other:
                    yield from self._topology.path(one, other)
        if len(mates) > 1:
            for _, place, _ in self._seats:
                yield from place.up + place.down

    def _ends(self, link: int) -> tuple[_Key, _Key]:
        ends = self._topology.links[link]
        source, target = (
            self._vertex_keys.get(name, (name,)) for name in (ends.source, ends.target)
        )
        return source, target

    def _stand_in(self, link: int) -> int:
        return self._stand_ins.setdefault(self._ends(link), link)

    def _share(self, link: int, flows: int) -> int:
        """Flows on each link of a class that carries so many in all.

        The hierarchy is a tree: the end that there are more of has one such link each.
        """
        links = max(self._vertices.get(key, 1) for key in self._ends(link))
        assert flows % links == 0, "links of a class carry alike"
        return flows // links


def _shared(one: Place, other: Place) -> int:
    """How many of leaf, node and NIC two places have in common."""
    return (one.leaf == other.leaf) + (one.inside == other.inside) + (one.nic == other.nic)


def _vertex_keys(places: Mapping[Gpu, Place]) -> dict[str, _Key]:
    """Vertices by name; equal keys are exchanged by a symmetry.

    A NIC is what it has of ranks, a node what it has of NICs, a leaf what it has of nodes.
    """
    on_nic = Counter(place.nic for place in places.values())
    nics_of: dict[str, set[str]] = defaultdict(set)
    nodes_of: dict[str, set[str]] = defaultdict(set)
    for place in places.values():
        nics_of[place.inside].add(place.nic)
        nodes_of[place.leaf].add(place.inside)
    numbers: dict[_Key, int] = {}

    def number(kind: _Key) -> int:
        return numbers.setdefault(kind, len(numbers))

    nodes = {
        node: number(("node", *sorted(on_nic[nic] for nic in nics)))
        for node, nics in nics_of.items()
    }
    leaves = {
        leaf: number(("leaf", *sorted(nodes[node] for node in inside)))
        for leaf, inside in nodes_of.items()
    }
    keys: dict[str, _Key] = {}
    for place in places.values():
        kind = (on_nic[place.nic], nodes[place.inside], leaves[place.leaf])
        keys[place.gpu] = ("gpu", *kind)
        keys[place.nic] = ("nic", *kind)
        keys[place.inside] = ("inside", *kind[1:])
        keys[place.leaf] = ("leaf", *kind[2:])
    return keys
