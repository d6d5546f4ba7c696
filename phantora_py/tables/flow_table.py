"""The flows of a run's operations. The data file has what decides them and not them: they are
planned again, as the server has planned them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import simpy

from phantora_py.data import RunData
from sim_server.collectives.communication import Communication
from sim_server.errors import UsageError
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation


class FlowRow(NamedTuple):
    """A flow of an operation, or flows that are alike."""

    operation: int
    """Index in the run's operations."""
    source: str
    """Where it begins, as "gpu 0.3": node, and number in it."""
    target: str
    links: str
    """What it goes over, from vertex to vertex."""
    link_bytes: float
    """What it takes of each of its links' capacity: payload, what the protocol adds, and what links
    do not reach in practice."""
    flows: int
    """How many there are of it: more than one in exchanges of many ranks, where the row shows one
    that the others are like."""
    begin_ns: int
    """When the operation's first steps are over and its bytes move."""
    end_ns: int
    """Of the operation: its flows advance together, those of an exchange end by then."""


def flow_rows(data: RunData) -> Iterator[FlowRow]:
    """Of all operations that moved bytes between ranks.

    Raises: UsageError for a file whose operations this version would carry out otherwise.
    """
    moved = [(index, row) for index, row in enumerate(data.operations) if row.get("algorithm")]
    if not moved:
        return
    settings = data.told_settings
    communication = Communication(
        *(simpy.Environment(), settings.cluster, settings.nodes, settings.gpus_per_node),
        settings.nccl_environment,
        nccl_version=settings.nccl_version,
    )
    links = communication.links
    for index, row in moved:
        plan = communication.plan(_operation(row))
        begin_ns, end_ns = row["moves_ns"] + plan.startup_ns, max(row["ends_ns"])
        if plan.algorithm.value != row["algorithm"] or begin_ns > end_ns:
            raise UsageError(
                f"{data.path} is of another version of phantora, which would carry out operation "
                f"{index} ({row['kind']}, {row['algorithm']}) otherwise. Make a new file of it "
                "with phantora resimulate."
            )
        for demand in plan.demands:
            way = [links[link] for link in demand.path]
            yield FlowRow(
                operation=index,
                source=way[0].source,
                target=way[-1].target,
                links=" > ".join([way[0].source, *(link.target for link in way)]),
                link_bytes=demand.size_bytes,
                flows=demand.flows,
                begin_ns=begin_ns,
                end_ns=end_ns,
            )


def _operation(row: Mapping[str, Any]) -> Operation:
    kind = NcclOpKind[row["kind"].upper()]
    members = tuple(row["members"])
    ends = dict(zip(("source", "destination"), members, strict=True)) if _is_pair(kind) else {}
    return Operation(
        kind=kind,
        count=row["count"],
        dtype=row["dtype"],
        members=() if ends else members,
        root=row.get("root", 0),
        reduction=row.get("reduction", 0),
        **ends,
    )


def _is_pair(kind: NcclOpKind) -> bool:
    return kind in (NcclOpKind.SEND, NcclOpKind.RECV)
