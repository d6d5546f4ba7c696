"""How busy links are over time, and which link holds an operation up: what the flows leave behind.

Between two changes of its rates, flows that share links load them evenly. Each such stretch is one
row: from, to, and which load it was, of a table of loads that mostly come again. So what is kept
grows with the changes of rates, not with flows or links, and nothing is sampled.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from sim_server import _network
from sim_server.network.topology import Link

USE_TYPE = np.dtype([("begin_ns", "<i8"), ("end_ns", "<i8"), ("load", "<u4")])
Piece = tuple[str, bytes]
CHANNELS = "channels"
"""What limits flows that no full link does: NCCL's own channels, or those of their operation that
they keep step with."""

# Vertices that GPUs of a node meet in over PCIe.
_PCIE = frozenset(("gpu", "host", "memory", "pcie"))


class LinkUse:
    """Stretches of use, until they are taken."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = links
        classes = [link_class(link) for link in links]
        self._names = sorted({*classes, CHANNELS})
        numbers = {name: number for number, name in enumerate(self._names)}
        self.counted = _network.LinkUse(
            [link.capacity_bytes_per_s for link in links],
            [numbers[name] for name in classes],
            numbers[CHANNELS],
        )
        """What flows add to."""
        self._pieces = 0

    def __len__(self) -> int:
        return len(self.counted)

    def by_name(self, of_classes_ns: Sequence[int]) -> dict[str, int]:
        """Times by class of links, those that are not zero."""
        return {name: ns for name, ns in zip(self._names, of_classes_ns, strict=True) if ns}

    def take(self, before_ns: int) -> Iterator[Piece]:
        """What ended before a time since the last call: members of the data file. Rows come after
        the loads that they refer to, and neither tells in which order flows of one instant ended.
        """
        rows, fresh = self.counted.take(before_ns)
        if not len(rows):
            return
        if fresh:
            loads = [
                {
                    self._names[one]: (share, most, self._name(link))
                    for one, share, most, link in load
                }
                for load in fresh
            ]
            yield f"link_loads/{self._pieces:06}.json", json.dumps(loads).encode()
        buffer = io.BytesIO()
        np.save(buffer, rows.astype(USE_TYPE))
        yield f"link_use/{self._pieces:06}.npy", buffer.getvalue()
        self._pieces += 1

    def _name(self, link: int) -> str:
        return f"{self._links[link].source} to {self._links[link].target}"


def link_class(link: Link) -> str:
    """What kind of link it is, as reports name it."""
    return _class_between(link.source.partition(" ")[0], link.target.partition(" ")[0])


@cache
def _class_between(source: str, target: str) -> str:
    ends = {source, target}
    if "nvswitch" in ends:
        return "NVLink"
    if ends <= _PCIE or ends == {"gpu", "nic"}:
        return "PCIe"
    if "nic" in ends:
        return "NIC"
    return "leaf uplink" if "leaf" in ends else "switch link"
