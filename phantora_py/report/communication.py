"""What ranks communicate: operations that are alike, with their size and bus bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phantora_py.bench.operations import bus_factor
from phantora_py.data import RunData
from phantora_py.report.layout import layout_text, pair_text
from phantora_py.report.link_limits import link_bytes_per_s
from phantora_py.report.window import Window
from phantora_py.text.units import percent_text
from sim_server.records import NcclOpKind


@dataclass(frozen=True)
class CommunicationRow:
    """Operations of one kind and size on communicators that lie alike."""

    kind: str
    layout: str
    members: tuple[int, ...]
    """Of one of the communicators."""
    algorithm: str
    """With the protocol; empty if the data file does not say it, or nothing moved."""
    communicators: int
    size_bytes: int
    """As nccl-tests counts it: of the larger buffer."""
    operations: int
    moving_ns: int
    """From the arrival of the last rank to the end; of all operations together."""
    waiting_ns: int
    """From the first arrival to the last; of all operations together."""
    limited_by: str
    """What they took their time for: a class of links, NCCL's channels, latency. With shares of the
    time if they are several; empty if the data file does not say it, or nothing moved."""
    bus_bytes_per_s: float | None
    """As nccl-tests computes it, while bytes move. None: nothing moved between ranks."""
    links_bytes_per_s: float | None
    """The most that links allow (`link_limits`). None: not known."""


class Layouts:
    """Layouts of operations; communicators are few and operations many."""

    def __init__(self, data: RunData) -> None:
        self._data = data
        self._ranks_per_node = int(data.run["gpus_per_node"])
        self._texts: dict[tuple[bool, bool, tuple[int, ...]], str] = {}

    def of(self, operation: dict[str, Any]) -> str:
        """How the participants of an operation lie."""
        key = (operation["kind"] == "send", "owners" in operation, tuple(operation["members"]))
        text = self._texts.get(key)
        if text is None:
            is_pair, has_owners, members = key
            noun = "GPU" if has_owners else "rank"
            if is_pair:
                text = pair_text(members[0], members[1], self._node_of, noun)
            else:
                text = layout_text(members, self._node_of, noun)
            self._texts[key] = text
        return text

    def _node_of(self, gpu: int) -> int:
        if gpu < self._data.ranks:
            return gpu // self._ranks_per_node
        node, _ = self._data.told_settings.gpu_numbers.place(gpu)
        return node


def communication_rows(data: RunData, window: Window) -> list[CommunicationRow]:
    """What ended in the window; what took longest first."""
    layouts = Layouts(data)
    alike: dict[tuple[str, str, int, str], list[dict[str, Any]]] = {}
    for operation in window.operations_in(data):
        way = (
            f"{operation['algorithm']}, {operation['protocol']}" if "algorithm" in operation else ""
        )
        key = (operation["kind"], layouts.of(operation), operation["bytes"], way)
        alike.setdefault(key, []).append(operation)
    rows = [_row(data, key, operations) for key, operations in alike.items()]
    return sorted(rows, key=lambda row: (-row.moving_ns, row.kind, row.layout, row.size_bytes))


def _row(
    data: RunData, key: tuple[str, str, int, str], operations: list[dict[str, Any]]
) -> CommunicationRow:
    kind, layout, size_bytes, algorithm = key
    members = tuple(operations[0]["members"])
    moving_ns = sum(max(one["ends_ns"]) - one["moves_ns"] for one in operations)
    bus_bytes_per_s = None
    if moving_ns and size_bytes and len(set(members)) > 1:
        factor = bus_factor(NcclOpKind[kind.upper()], len(members))
        bus_bytes_per_s = factor * size_bytes * len(operations) / moving_ns * 1e9
    return CommunicationRow(
        kind=kind,
        layout=layout,
        members=members,
        algorithm=algorithm,
        communicators=len({(one["comm"], *one["members"]) for one in operations}),
        size_bytes=size_bytes,
        operations=len(operations),
        moving_ns=moving_ns,
        waiting_ns=sum(one["moves_ns"] - min(one["arrivals_ns"]) for one in operations),
        limited_by=_limit(operations),
        bus_bytes_per_s=bus_bytes_per_s,
        links_bytes_per_s=bus_bytes_per_s and link_bytes_per_s(data, kind, members),
    )


def _limit(operations: list[dict[str, Any]]) -> str:
    """Weighed by the time in which bytes moved."""
    times_ns: dict[str, int] = {}
    for one in operations:
        if one.get("limited_by"):
            moving_ns = max(one["ends_ns"]) - one["moves_ns"]
            times_ns[one["limited_by"]] = times_ns.get(one["limited_by"], 0) + moving_ns
    if not times_ns:
        return ""
    if len(times_ns) == 1:
        return next(iter(times_ns))
    whole_ns = sum(times_ns.values())
    ordered = sorted(times_ns, key=lambda limit: (-times_ns[limit], limit))
    return ", ".join(f"{limit} {percent_text(times_ns[limit] / whole_ns)}" for limit in ordered)
