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


class Fold:
    """The classes of the exchange between GPUs of a symmetric topology."""

    def __init__(self, topology: Topology, gpus: Sequence[Gpu]) -> None:
        assert topology.is_symmetric, "routes must depend on the places of their ends only"
        self._topology = topology
        self._gpus = gpus
        self._places = {gpu: topology.place(gpu) for gpu in gpus}
        self._vertex_keys = _vertex_keys(self._places)
        self._vertices = Counter(self._vertex_keys.values())
        self._stand_ins: dict[_Key, int] = {}
        self._index: dict[_Key, int] = {}
        self.classes = tuple(self._find_classes())
        self.links = frozenset(self._find_links())
        """All links that the flows use."""

    def paths(self) -> list[list[tuple[int, ...]]]:
        """Of every flow, by the index of its class."""
        paths: list[list[tuple[int, ...]]] = [[] for _ in self.classes]
        for source in self._gpus:
            for destination in self._gpus:
                if source is not destination:
                    index = self._index[self._class_key(source, destination)]
                    paths[index].append(self._topology.find_path(source, destination))
        return paths

    def _find_classes(self) -> Iterator[FlowClass]:
        """Ranks of one key send alike, so that one of each is looked at."""
        senders = Counter(map(self._gpu_key, self._gpus))
        one_of_each = {self._gpu_key(gpu): gpu for gpu in reversed(self._gpus)}
        for key, source in one_of_each.items():
            pairs: dict[_Key, list[Gpu]] = defaultdict(list)
            for destination in self._gpus:
                if destination != source:
                    pairs[self._class_key(source, destination)].append(destination)
            for pair, destinations in pairs.items():
                self._index[pair] = len(self._index)
                path = self._topology.path(source, destinations[0])
                count = senders[key] * len(destinations)
                stand_ins = tuple(map(self._stand_in, path))
                on_link = tuple(self._share(link, count) for link in path)
                yield FlowClass(source, destinations[0], count, stand_ins, on_link)

    def _find_links(self) -> Iterator[int]:
        """One peer in the node, one in the leaf and one elsewhere meet all links of a GPU."""
        near: dict[str, dict[str, Gpu]] = defaultdict(dict)
        for gpu, place in self._places.items():
            near[place.inside][place.gpu] = gpu
            near[place.leaf].setdefault(place.inside, gpu)
            near[""].setdefault(place.leaf, gpu)
        peers = {name: list(found.values())[:2] for name, found in near.items()}
        for gpu, place in self._places.items():
            for peer in peers[place.inside] + peers[place.leaf] + peers[""]:
                if peer != gpu:
                    yield from self._topology.path(gpu, peer)
                    yield from self._topology.path(peer, gpu)

    def _gpu_key(self, gpu: Gpu) -> _Key:
        return self._vertex_keys[self._places[gpu].gpu]

    def _class_key(self, source: Gpu, destination: Gpu) -> _Key:
        one, other = self._places[source], self._places[destination]
        keys = self._vertex_keys
        met = (one.nic == other.nic, one.inside == other.inside, one.leaf == other.leaf)
        return (keys[one.gpu], keys[other.gpu], met)

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
