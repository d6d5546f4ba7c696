"""A trace as a graph: whether it is one, and in which order a host comes to its nodes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from sim_server.chakra.execution_trace_pb2 import (
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
    METADATA_NODE,
    Node,
    NodeType,
)
from sim_server.chakra.files import Value, values_of
from sim_server.files.schema import Fault

COMMUNICATION = (COMM_COLL_NODE, COMM_SEND_NODE, COMM_RECV_NODE)
_KNOWN_TYPES = (*COMMUNICATION, COMP_NODE, METADATA_NODE)


class Step:
    """A node, with its attributes by name."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.id = int(node.id)
        self.attributes: dict[str, Value] = values_of(node.attr)
        self.after = sorted({*node.ctrl_deps, *node.data_deps})

    @property
    def is_host(self) -> bool:
        """The host does it, or it is only told; else a device does."""
        if self.node.type == METADATA_NODE:
            return True
        return bool(self.attributes.get("is_cpu_op", False))

    @property
    def is_communication(self) -> bool:
        """Ranks do it together."""
        return self.node.type in COMMUNICATION

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number. Raises: Fault if it has none of that name, or another value."""
        value = self.attributes.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Fault(f"node {self.id} ({self.node.name}) has no number {name!r}")
        return value

    def numbers(self, name: str) -> list[int]:
        """Whole numbers. Raises: Fault likewise."""
        value = self.attributes.get(name)
        if not isinstance(value, list) or not all(type(one) is int for one in value):
            raise Fault(f"node {self.id} ({self.node.name}) has no numbers {name!r}")
        return [one for one in value if isinstance(one, int)]

    def text(self, name: str, default: str = "") -> str:
        """A text; the default if it has none."""
        return str(self.attributes.get(name, default))


def in_order(nodes: Sequence[Node]) -> list[Step]:
    """The nodes so that each comes after those that it depends on: what devices do as soon as that
    holds, what the host does in the order of its numbers.

    Raises: Fault if a node is incomplete, two have one number, one depends on a node that is not
    there, or nodes depend on each other in a circle.
    """
    steps = {int(node.id): Step(node) for node in nodes}
    if len(steps) < len(nodes):
        raise Fault(f"{len(nodes) - len(steps)} nodes have the numbers of others")
    missing = dict.fromkeys(steps, 0)
    following: dict[int, list[int]] = {}
    for step in steps.values():
        _check(step)
        for before in step.after:
            if before not in steps:
                raise Fault(f"node {step.id} depends on node {before}, which is not there")
            following.setdefault(before, []).append(step.id)
        missing[step.id] = len(step.after)
    ready = [(step.is_host, step.id) for step in steps.values() if not step.after]
    heapq.heapify(ready)
    ordered = []
    while ready:
        step = steps[heapq.heappop(ready)[1]]
        ordered.append(step)
        for after in following.get(step.id, ()):
            missing[after] -= 1
            if missing[after] == 0:
                heapq.heappush(ready, (steps[after].is_host, after))
    if len(ordered) < len(steps):
        stuck = min(number for number, count in missing.items() if count)
        raise Fault(f"nodes depend on each other in a circle, {stuck} among them or after them")
    return ordered


def _check(step: Step) -> None:
    if step.node.type not in _KNOWN_TYPES:
        name = NodeType.Name(step.node.type) if step.node.type in NodeType.values() else "unknown"
        raise Fault(f"node {step.id} is of a type that is not simulated: {name}")
    if not step.node.name:
        raise Fault(f"node {step.id} has no name")
    if step.node.type == COMM_COLL_NODE:
        step.number("comm_type")
    if step.is_communication:
        step.number("comm_size")
