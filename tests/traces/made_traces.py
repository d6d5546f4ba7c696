"""Small Chakra traces, made by hand as another tool may have made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim_server.chakra.execution_trace_pb2 import (
    ALL_REDUCE,
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
    Node,
    NodeType,
)
from sim_server.chakra.files import attribute, write_trace


def node(
    number: int, after: Sequence[int] = (), *, kind: NodeType = COMP_NODE, **attributes: Any
) -> Node:
    """A node; `micros` and `name` are its own, other attributes are attributes."""
    made = Node(id=number, name=attributes.pop("name", f"node {number}"), type=kind)
    made.duration_micros = attributes.pop("micros", 0)
    made.data_deps.extend(after)
    made.attr.extend(attribute(name, value) for name, value in attributes.items())
    return made


def host(number: int, after: Sequence[int] = (), **attributes: Any) -> Node:
    """Something that the host does."""
    return node(number, after, is_cpu_op=True, **attributes)


def all_reduce(number: int, after: Sequence[int] = (), size: int = 4096, group: str = "0") -> Node:
    """A collective."""
    told: dict[str, Any] = {"comm_type": int(ALL_REDUCE), "comm_size": size, "pg_name": group}
    return node(number, after, kind=COMM_COLL_NODE, is_cpu_op=False, **told)


def exchange(number: int, sent: Sequence[int], received: Sequence[int]) -> Node:
    """An all-to-all, with splits in bytes."""
    told: dict[str, Any] = {
        "comm_type": 6,
        "comm_size": max(sum(sent), sum(received)),
        "pg_name": "0",
    }
    splits: dict[str, Any] = {"in_split_size": sent, "out_split_size": received}
    return node(number, kind=COMM_COLL_NODE, is_cpu_op=False, **told, **splits)


def send(number: int, source: int, destination: int, size: int = 64) -> Node:
    """From the rank whose trace it is in."""
    return _transfer(number, COMM_SEND_NODE, source, destination, size)


def receive(number: int, source: int, destination: int, size: int = 64) -> Node:
    """To the rank whose trace it is in."""
    return _transfer(number, COMM_RECV_NODE, source, destination, size)


def _transfer(number: int, kind: NodeType, source: int, destination: int, size: int) -> Node:
    told: dict[str, Any] = {
        "comm_src": source,
        "comm_dst": destination,
        "comm_size": size,
        "pg_name": "0",
    }
    return node(number, kind=kind, is_cpu_op=False, **told)


def write_folder(
    path: Path, ranks: Sequence[Sequence[Node]], metadata: Mapping[str, Any] | None = None
) -> Path:
    """A file a rank. Returns: the folder."""
    path.mkdir(exist_ok=True)
    for rank, nodes in enumerate(ranks):
        with (path / f"trace.{rank}.et").open("wb") as file:
            write_trace(file, metadata or {}, nodes)
    return path
