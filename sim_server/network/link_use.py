"""How busy links are over time, and which link holds an operation up: what the flows leave behind.

Between two changes of its rates, flows that share links load them evenly. Each such stretch is one
row: from, to, and which load it was, of a table of loads that mostly come again. So what is kept
grows with the changes of rates, not with flows or links, and nothing is sampled.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim_server.network.topology import Link

if TYPE_CHECKING:
    from sim_server.network.flows import Demand

USE_TYPE = np.dtype([("begin_ns", "<i8"), ("end_ns", "<i8"), ("load", "<u4")])
Piece = tuple[str, bytes]
CHANNELS = "channels"
"""What limits flows that no full link does: NCCL's own channels, or those of their operation that
they keep step with."""

# Vertices that GPUs of a node meet in over PCIe.
_PCIE = frozenset(("gpu", "host", "memory", "pcie"))
# Of shares: what is nearer to full than that is full. Far above rounding, far below what is seen.
_DIGITS = 6
# Loads whose numbers are remembered; beyond that many some are in the table twice.
_KNOWN = 4096


class Tightness(NamedTuple):
    """Of the link of a flow's path that is most used: the share in use, and its class."""

    share: float
    limit: str


Load = tuple[tuple[str, float, float, int], ...]
"""By class of links, those without flows left out: name, share of all their capacity in use, share
of the most used one's, which that is.
"""


class Measured(NamedTuple):
    """What flows that share links make of them. `tightest`: by flow."""

    load: Load
    tightest: list[Tightness]


class LinkUse:
    """Stretches of use, until they are taken."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = links
        self._classes = [link_class(link) for link in links]
        self._capacities = dict.fromkeys(self._classes, 0)
        for link, name in zip(links, self._classes, strict=True):
            self._capacities[name] += link.capacity_bytes_per_s
        self._rows: list[tuple[int, int, Load]] = []
        self._numbers: dict[Load, int] = {}  # in the table of the file
        self._numbered = 0
        self._pieces = 0

    def __len__(self) -> int:
        return len(self._rows)

    def measure(self, demands: Sequence[Demand], rates: Sequence[float]) -> Measured:
        """Of flows at these rates, in bytes per second."""
        on_link: dict[int, float] = {}
        totals: dict[str, float] = {}
        for demand, rate in zip(demands, rates, strict=True):
            counts = demand.flows_on_link or (1,) * len(demand.path)
            for link, count in zip(demand.path, counts, strict=True):
                on_link[link] = on_link.get(link, 0.0) + rate * count
                name = self._classes[link]
                totals[name] = totals.get(name, 0.0) + rate * demand.flows
        shares = {
            link: round(load / self._links[link].capacity_bytes_per_s, _DIGITS)
            for link, load in on_link.items()
        }
        most: dict[str, int] = {}
        for link in sorted(shares):  # of several that are used alike the first
            name = self._classes[link]
            if name not in most or shares[link] > shares[most[name]]:
                most[name] = link
        load = tuple(
            (name, round(totals[name] / self._capacities[name], _DIGITS), shares[link], link)
            for name, link in sorted(most.items())
        )
        return Measured(load, [self._tightness(one.path, shares) for one in demands])

    def _tightness(self, path: Sequence[int], shares: dict[int, float]) -> Tightness:
        link = max(path, key=shares.__getitem__)
        return Tightness(shares[link], self._classes[link] if shares[link] >= 1 else CHANNELS)

    def note(self, begin_ns: int, end_ns: int, load: Load) -> None:
        """Flows have loaded their links so, from then to now."""
        self._rows.append((begin_ns, end_ns, load))

    def take(self, before_ns: float) -> Iterator[Piece]:
        """What ended before a time since the last call: members of the data file. Rows come after
        the loads that they refer to, and neither tells in which order flows of one instant ended.
        """
        rows = sorted(row for row in self._rows if row[1] < before_ns)
        if not rows:
            return
        self._rows = [row for row in self._rows if row[1] >= before_ns]
        fresh: list[dict[str, tuple[float, float, str]]] = []
        numbered = [(begin, end, self._number(load, fresh)) for begin, end, load in rows]
        if fresh:
            yield f"link_loads/{self._pieces:06}.json", json.dumps(fresh).encode()
        buffer = io.BytesIO()
        np.save(buffer, np.array(numbered, USE_TYPE))
        yield f"link_use/{self._pieces:06}.npy", buffer.getvalue()
        self._pieces += 1

    def _number(self, load: Load, fresh: list[dict[str, tuple[float, float, str]]]) -> int:
        number = self._numbers.get(load)
        if number is None:
            if len(self._numbers) >= _KNOWN:
                self._numbers.clear()
            number = self._numbers[load] = self._numbered
            self._numbered += 1
            fresh.append(
                {name: (share, most, self._name(link)) for name, share, most, link in load}
            )
        return number

    def _name(self, link: int) -> str:
        return f"{self._links[link].source} to {self._links[link].target}"


def link_class(link: Link) -> str:
    """What kind of link it is, as reports name it."""
    ends = frozenset(name.partition(" ")[0] for name in (link.source, link.target))
    if "nvswitch" in ends:
        return "NVLink"
    if ends <= _PCIE or ends == {"gpu", "nic"}:
        return "PCIe"
    if "nic" in ends:
        return "NIC"
    return "leaf uplink" if "leaf" in ends else "switch link"
