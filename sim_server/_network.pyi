"""Flows on the links of a cluster: their rates, their ends, and how busy they keep the links.

It is told the time, and starts and ends nothing by itself: sim_server/network/flows.py puts it into
the virtual time of the rest. Links are numbered from 0.

Raises: ValueError and TypeError for arguments of the wrong form; RuntimeError for flows and links
that cannot be.
"""

from collections.abc import Sequence

import numpy as np

from sim_server.network.flows import Demand

def max_min_rates(
    capacities: Sequence[float],
    paths: Sequence[Sequence[int]],
    caps: Sequence[float],
    counts: Sequence[Sequence[int]] | None = None,
) -> list[float]:
    """What `sim_server.network.maxmin.max_min_rates` gives, to the last bit."""

class LinkUse:
    def __init__(
        self, capacities_bytes_per_s: Sequence[float], class_of: Sequence[int], channels: int
    ) -> None:
        """`class_of`: each link's class. `channels`: the class that limits where no link does."""
    def take(self, before_ns: int) -> tuple[np.ndarray, list[list[tuple[int, float, float, int]]]]:
        """What ended before a time since the last call: rows (begin_ns, end_ns, load), and the
        loads that no row had before, numbered in this order from where the last call ended.

        A load: class, share of its capacity, share of its most used link's, which that is.
        """
    def __len__(self) -> int:
        """How many rows `take` could return."""

class EndedBatch:
    @property
    def batch(self) -> int:
        """Its number, which is free again."""
    @property
    def ends_ns(self) -> list[int]: ...
    @property
    def limits_ns(self) -> list[int]:
        """By class of links: how long it held the flows up. Empty if that was not watched."""

class FlowSet:
    def __init__(
        self,
        capacities_bytes_per_s: Sequence[float],
        use: LinkUse | None,
        settling: tuple[float, Sequence[int]] | None,
    ) -> None:
        """`settling`: time constant in seconds, and links on which rates approach what is fair."""
    def start(self, now_ns: int, demands: Sequence[Demand], alike: int = 1) -> int:
        """Start flows, of which one at least has bytes. Returns: the number of their batch.

        `alike`: how many batches it stands for, with itself, on links that nothing else uses.
        """
    def split(self, now_ns: int, batch: int, paths: Sequence[Sequence[tuple[int, ...]]]) -> None:
        """Flows that stand for others become these: paths, by the flow's place in its batch."""
    def separate(
        self, now_ns: int, batch: int, paths: Sequence[Sequence[tuple[int, ...]]]
    ) -> list[int]:
        """Batches for which one stands go on by themselves, each with these paths in the place of
        its own. Returns: their numbers.
        """
    def set_capacity(self, link: int, capacity_bytes_per_s: float) -> None: ...
    def settle(self, now_ns: int) -> None:
        """Give the flows that changes can reach their rates from now on."""
    def next_end_ns(self) -> int | None:
        """When flows end next, as far as changes have settled."""
    def end_due(self, now_ns: int) -> list[EndedBatch] | None:
        """End the flows whose time has come. Returns: batches that are over with that; None if
        there was no such flow.
        """
    def is_idle(self, link: int) -> bool:
        """Whether a link has no flows."""
    def rates(self, link: int) -> list[float]:
        """Bytes per second of the flows on a link, in the order in which they started."""
