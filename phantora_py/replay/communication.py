"""What a trace tells of communication beside its operators: groups, batches, and waits."""

from __future__ import annotations

from typing import Any

from phantora_py.replay.observed import COMMUNICATION_NODE, Node, ObservedTrace
from phantora_py.replay.operators import COMMUNICATION
from phantora_py.replay.selected import devices
from sim_server.errors import UsageError

POINT_TO_POINT = ("c10d::send", "c10d::recv_", "c10d::recv_any_source_")
_WAIT, _BATCH = "wait", "batch_op_issue"
_Work = tuple[str, Any, Any]
"""Group, number, and whether it is of one pair."""


class Communication:
    """Of one rank: completes events as the nodes of communication come."""

    def __init__(self, trace: ObservedTrace, groups: dict[str, list[int]]) -> None:
        self._trace = trace
        self._groups = groups
        self._tells_waits = any(node.collective == _WAIT for node in trace.nodes.values())
        self._issued: tuple[_Work, dict[str, Any]] | None = None
        """What was called last, if nothing has been called since."""
        self._batch: list[dict[str, Any]] = []
        """Transfers whose group has not been told yet."""

    def begin(self, node: Node, event: dict[str, Any]) -> None:
        """An operator is called; `event` becomes a proxy if its group is not told at all."""
        self._issued = None
        if node.schema.partition("::")[0] not in COMMUNICATION or node.name.endswith("wait_tensor"):
            return
        if self._tells_waits:
            event["waits"] = False
        told = next((one for one in node.below() if one.name == COMMUNICATION_NODE), None)
        if told is not None:
            self._issued = _work(told), event
        if told is not None and "pg_name" in told.attributes:
            event["group"] = self._group(told)
        elif node.name in POINT_TO_POINT and "cpu" not in devices(node):
            self._batch.append(event)
        elif (group := self._only_group()) is not None:
            event["group"] = group

    def take(self, node: Node) -> None:
        """A node that tells of what was called before."""
        if node.collective == _WAIT:
            if self._issued is not None and self._issued[0] == _work(node):
                self._issued[1]["waits"] = True
            return
        if not self._batch:
            return
        group = self._group(node)
        for event in self._batch:
            event["group"] = group
        self._batch[0]["batch"] = len(self._batch)
        self._issued = _work(node), self._batch[-1]
        self._batch = []

    def end(self, events: list[dict[str, Any]], names: list[str]) -> None:
        """Everything has come. What has no group cannot be called: it becomes a proxy."""
        group = self._only_group()
        for event in self._batch:
            if group is not None:
                event["group"] = group
        for event in events:
            if event["do"] != "op" or "group" in event:
                continue
            name = names[event["schema"]].partition("(")[0]
            if name.startswith("c10d::"):
                del event["schema"]
                event |= {"do": "proxy", "name": f"{name} (no process group told)", "launches": 1}

    def _only_group(self) -> str | None:
        """The one that has all ranks, if there is no other."""
        if all(members == self._groups["0"] for members in self._groups.values()):
            return "0"
        return None

    def _group(self, node: Node) -> str:
        name = str(node.attributes["pg_name"])
        if name not in self._groups:
            raise UsageError(
                f"{self._trace.path}: node {node.id} uses process group {name}, and "
                "nothing says which ranks it has."
            )
        return name


def _work(node: Node) -> _Work:
    """Its number is the first one; since schema 1.1.1 it is beside whether it is of a pair."""
    for one in node.inputs:
        if type(one) is int:
            return "", one, False
        if isinstance(one, list) and len(one) == 2 and type(one[1]) is bool:
            return str(node.attributes.get("pg_name")), *one
    return "", None, False
