"""Nodes of traces, issued as a simulator of Chakra's graphs does that knows nothing of ours.

A node is issued when all that it depends on has ended, those with lower numbers first. A rank has
one host, one unit that computes and one that communicates, and each does one node at a time; a
receive takes none. A collective ends when its group's members have all issued it, with the same
size, a receive when its send has been issued, anything else at once. So ASTRA-sim's workload layer
issues them.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict

from phantora_py.traces.folder import TraceFolder
from sim_server.chakra.execution_trace_pb2 import COMM_COLL_NODE, COMM_RECV_NODE, COMM_SEND_NODE
from sim_server.chakra.graph import Step

Node = tuple[int, int]
"""Rank and number."""


def left_over(folder: TraceFolder) -> set[Node]:
    """Nodes that do not end."""
    ranks = [_Rank(steps) for steps in folder.steps]
    together = _Together(folder)

    def ended() -> list[Node]:
        issued = [(number, step) for number, rank in enumerate(ranks) for step in rank.issue()]
        return [node for number, step in issued for node in together.come(number, step)]

    while nodes := ended():
        for number, node in nodes:
            ranks[number].end(node)
    return {(number, node) for number, rank in enumerate(ranks) for node in rank.missing}


class _Together:
    """What waits for other ranks."""

    def __init__(self, folder: TraceFolder) -> None:
        self._folder = folder
        self._counts: Counter[tuple[int, str]] = Counter()
        self._come: defaultdict[tuple[str, int, int], list[Node]] = defaultdict(list)
        self._sent: set[tuple[int, ...]] = set()
        self._receives: dict[tuple[int, ...], Node] = {}

    def come(self, rank: int, step: Step) -> list[Node]:
        """A node is issued. Returns: those that end by that."""
        if step.node.type == COMM_COLL_NODE:
            group = step.text("pg_name")
            key = (group, self._counts[rank, group], step.number("comm_size"))
            self._counts[rank, group] += 1
            self._come[key].append((rank, step.id))
            whole = len(self._come[key]) == len(self._folder.groups[group])
            return self._come[key] if whole else []
        if step.node.type not in (COMM_SEND_NODE, COMM_RECV_NODE):
            return [(rank, step.id)]
        pair = tuple(step.number(name) for name in ("comm_src", "comm_dst", "comm_tag"))
        if step.node.type == COMM_SEND_NODE:
            self._sent.add(pair)
            waiting = self._receives.pop(pair, None)
            return [(rank, step.id), *([] if waiting is None else [waiting])]
        if pair in self._sent:
            return [(rank, step.id)]
        self._receives[pair] = (rank, step.id)
        return []


class _Rank:
    """The nodes of a rank."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = {one.id: one for one in steps}
        self._following: defaultdict[int, list[int]] = defaultdict(list)
        self._ready: list[int] = []
        self._busy: set[str] = set()
        self.missing = {one.id: len(one.after) for one in steps}
        for one in steps:
            for before in one.after:
                self._following[before].append(one.id)
            if not one.after:
                heapq.heappush(self._ready, one.id)

    def issue(self) -> list[Step]:
        """All that may begin now."""
        begun, later = [], []
        while self._ready:
            step = self._steps[heapq.heappop(self._ready)]
            unit = _unit(step)
            if unit in self._busy:
                later.append(step.id)
                continue
            self._busy |= {unit} - {""}
            begun.append(step)
        for number in later:
            heapq.heappush(self._ready, number)
        return begun

    def end(self, number: int) -> None:
        """A node has ended."""
        self._busy.discard(_unit(self._steps[number]))
        del self.missing[number]
        for after in self._following[number]:
            self.missing[after] -= 1
            if self.missing[after] == 0:
                heapq.heappush(self._ready, after)


def _unit(step: Step) -> str:
    """What does it; none for a receive."""
    if step.node.type == COMM_RECV_NODE:
        return ""
    if step.is_host:
        return "host"
    return "communication" if step.is_communication else "computation"
