"""Ways through a fabric: shortest paths between NICs, one for each pair.

Where several are shortest, `single` takes at each switch the one after the destination NIC's
number, `ecmp` the one of the hash of `sim_server.network.routing`. NICs and GPUs pass nothing on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from sim_server.cluster import Routing
from sim_server.network.routing import ecmp_spine

Graph = Mapping[str, Sequence[str]]
"""The neighbours of every vertex, in the order of the description."""


class UnreachableError(Exception):
    """There is no way between two NICs."""


class Routes:
    """Routes between the NICs of one fabric."""

    def __init__(self, neighbours: Graph, routing: Routing, seed: int) -> None:
        self._neighbours = neighbours
        self._routing = routing
        self._seed = seed
        self._distances: dict[str, dict[str, int]] = {}

    def between(self, source: str, destination: str, numbers: tuple[int, int]) -> list[str]:
        """Vertices from one NIC to another, both included.

        `numbers` are theirs in the cluster, which choose between equal ways.
        Raises: UnreachableError.
        """
        distances = self._distances_to(destination)
        if source not in distances:
            raise UnreachableError
        path = [source]
        while path[-1] != destination:
            here = path[-1]
            nearer = [
                one
                for one in self._neighbours[here]
                if distances.get(one, -1) == distances[here] - 1
            ]
            path.append(nearer[self._choice(numbers, len(path), len(nearer))])
        return path

    def _choice(self, numbers: tuple[int, int], hop: int, choices: int) -> int:
        if choices == 1:
            return 0
        if self._routing is Routing.ECMP:
            return ecmp_spine(self._seed + hop - 2, *numbers, choices)
        return numbers[1] % choices

    def _distances_to(self, destination: str) -> dict[str, int]:
        """Hops from everywhere, by breadth-first search."""
        found = self._distances.get(destination)
        if found is None:
            found = self._distances[destination] = {destination: 0}
            todo = deque([destination])
            while todo:
                here = todo.popleft()
                if here != destination and here.startswith("nic "):
                    continue
                for one in self._neighbours[here]:
                    if one not in found:
                        found[one] = found[here] + 1
                        todo.append(one)
        return found
