"""From execution traces to a benchmark: what is called, on which tensors, in which order."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

from phantora_py.replay.communication import Communication
from phantora_py.replay.container import Benchmark, new_head
from phantora_py.replay.observed import (
    COMMUNICATION_NODE,
    KERNEL,
    MARK,
    STEP,
    STREAM_CALL,
    Node,
    ObservedTrace,
    Tensor,
    read_traces,
    tensors_of,
)
from phantora_py.replay.operators import resolved
from phantora_py.replay.selected import devices, events
from sim_server.errors import UsageError

_NUMBERS = {"double": 1.0, "long int": 1}
_INTEGERS = ("long int", "int", "short int", "unsigned char", "signed char")
# Where the values of an operand are rows of another's dimension: operand, other, its dimension.
_INDEXES = {
    "aten::embedding": (1, 0, 0),
    "aten::nll_loss_forward": (1, 0, 1),
    "aten::_embedding_bag": (1, 0, 0),
}
# Likewise: operand, other; the dimension is their argument 1.
_ALONG = {"aten::index_select": (2, 0), "aten::gather": (2, 0)}


def build(directory: Path, only: str | None = None, subgraph: str | None = None) -> Benchmark:
    """`only`: "compute" or "communication". `subgraph`: what runs below nodes of that name.

    Raises: UsageError if traces are damaged, or nothing is left.
    """
    traces = read_traces(directory)
    groups: dict[str, list[int]] = {"0": list(range(len(traces)))}
    for trace in traces:
        for name, ranks in trace.groups.items():
            if any(not 0 <= rank < len(traces) for rank in ranks):
                raise UsageError(
                    f"{trace.path}: process group {name} has ranks that have no trace."
                )
            known = groups.setdefault(name, ranks or list(range(len(traces))))
            if ranks and known != ranks:
                raise UsageError(f"{trace.path}: process group {name} has other ranks elsewhere.")
    head = new_head(len(traces), groups)
    head["only"] = only
    head["has_strides"] = all(trace.has_strides for trace in traces)
    told: list[dict[str, Any]] = []
    for trace in traces:
        builder = _RankBuilder(trace, groups)
        for node in events(trace, only, subgraph):
            builder.take(node)
        told.append(builder.told())
        head["has_streams"] |= any(one["do"] == "stream" for one in told[-1]["events"])
        if not any(one["do"] in ("op", "proxy") for one in told[-1]["events"]):
            what = f" below {subgraph}" if subgraph else ""
            raise UsageError(f"{trace.path} has no operators{what} that could be replayed.")
    return Benchmark(head, told)


def _is_number(value: Any) -> bool:
    """Whether a GPU's operator has a number of the program's there, which the trace has as a
    tensor: which number is not told, and it decides no types of results."""
    is_scalar = isinstance(value, Tensor) and value.device == "cpu" and not value.shape
    return is_scalar and value.dtype in _NUMBERS


class _RankBuilder:
    """Numbers storages by version: who has an address after another is another."""

    def __init__(self, trace: ObservedTrace, groups: dict[str, list[int]]) -> None:
        self._trace = trace
        self._communication = Communication(trace, groups)
        self._versions: list[dict[str, Any]] = []
        self._now: dict[tuple[int, str], int] = {}
        self._tensors: dict[tuple[Any, ...], int] = {}
        self._schemas: dict[str, int] = {}
        self._events: list[dict[str, Any]] = []
        self._last: dict[int, int] = {}
        self._from: dict[int, int] = {}
        """Of storages of integers, the external one whose values they have."""
        self._graphs: dict[Any, set[int]] = {}
        """By CUDA graph, the storages that it uses."""
        self._capture: set[int] | None = None

    def told(self) -> dict[str, Any]:
        """All of the rank, as the container has it."""
        self._communication.end(self._events, list(self._schemas))
        for version, event in self._last.items():
            self._events[event].setdefault("free", []).append(version)
        tensors = [list(key) for key in self._tensors]
        return {
            **{"schemas": list(self._schemas), "tensors": tensors},
            **{"versions": self._versions, "events": self._events},
        }

    def take(self, node: Node) -> None:
        """Adds what it does."""
        thread = int(node.attributes.get("tid", 0))
        if node.name.startswith(STEP):
            self._events.append({"do": "mark", "name": node.name[len(STEP) :]})
        elif node.name == MARK:
            self._events.append({"do": "mark", **self._told_by(node)})
        elif node.name == STREAM_CALL:
            self._events.append({"do": "stream", "thread": thread, **self._told_by(node)})
            self._follow_graphs(self._events[-1])
        elif node.name == COMMUNICATION_NODE:
            self._communication.take(node)
        else:
            self._operator(node, thread)

    def _told_by(self, node: Node) -> dict[str, Any]:
        """What phantora has put into the trace."""
        try:
            return dict(json.loads(node.inputs[0]))
        except (ValueError, IndexError, TypeError) as error:
            raise UsageError(f"{self._trace.path} is damaged: node {node.id}") from error

    def _follow_graphs(self, event: dict[str, Any]) -> None:
        """What is used while a CUDA graph is captured is there until its last replay."""
        call, graph = event.get("call"), event.get("graph")
        if call == "capture":
            self._capture = self._graphs.setdefault(graph, set())
        elif call == "captured":
            self._capture = None
        elif call == "replay":
            for version in self._graphs.get(graph, ()):
                self._last[version] = len(self._events) - 1

    def _operator(self, node: Node, thread: int) -> None:
        number = len(self._events)
        event: dict[str, Any] = {"do": "proxy", "thread": thread, "name": node.name}
        takes_storage = "Storage" in node.schema
        if node.schema and resolved(node.schema) is not None and not takes_storage:
            event = {"do": "op", "thread": thread}
            event["schema"] = self._schemas.setdefault(node.schema, len(self._schemas))
        elif node.name == KERNEL and node.inputs:
            node = dataclasses.replace(node, name=str(node.inputs[0]), inputs=node.inputs[1:])
            event |= {"name": node.name, "launches": 1}
        elif not takes_storage:
            event["launches"] = 1 + sum(1 for one in node.below() if not one.children)
        else:
            event["launches"] = 0  # it only names memory that was there before
        on_gpu = devices(node) != {"cpu"}
        event["args"] = [
            _NUMBERS[one.dtype] if on_gpu and _is_number(one) else self._encoded(one, number, False)
            for one in node.inputs
        ]
        self._communication.begin(node, event)
        inputs = {(one.storage, one.device) for one in tensors_of(node.inputs)}
        event["outs"] = [self._encoded(one, number, True, inputs) for one in node.outputs]
        if takes_storage:
            for one in tensors_of(node.outputs):
                self._versions[self._now[(one.storage, one.device)]].setdefault("external", {})
        self._follow_integers(node)
        self._events.append(event)

    def _encoded(
        self, value: Any, event: int, is_output: bool, inputs: set[tuple[int, str]] | None = None
    ) -> Any:
        if isinstance(value, list):
            return [self._encoded(one, event, is_output, inputs) for one in value]
        if not isinstance(value, Tensor):
            return None if value == "<Object>" else value
        version = self._version(value, is_output, inputs or set())
        self._last[version] = event
        if self._capture is not None:
            self._capture.add(version)
        key = (version, value.offset, value.dtype, value.shape, value.strides)
        return {"tensor": self._tensors.setdefault(key, len(self._tensors))}

    def _version(self, tensor: Tensor, is_output: bool, inputs: set[tuple[int, str]]) -> int:
        key = (tensor.storage, tensor.device)
        known = self._now.get(key)
        needs = tensor.extent_bytes
        if is_output and key not in inputs:
            return self._new(key, tensor, None)
        if known is None:
            return self._new(key, tensor, {})
        row = self._versions[known]
        if needs > row["bytes"]:
            if not is_output and "external" not in row:
                return self._new(key, tensor, {})
            row["bytes"] = needs
        return known

    def _new(self, key: tuple[int, str], tensor: Tensor, external: dict[str, Any] | None) -> int:
        device = tensor.device.partition(":")[0]
        row = {"bytes": tensor.extent_bytes, "device": device, "dtype": tensor.dtype}
        if external is not None:
            row["external"] = external
        self._versions.append(row)
        self._now[key] = len(self._versions) - 1
        return self._now[key]

    def _follow_integers(self, node: Node) -> None:
        """What is known of the values of integers that come from outside the trace."""
        told = [one for one in tensors_of(node.inputs) if one.dtype in _INTEGERS]
        name = node.name
        for number, bounds in self._ranges(node).items():
            operand = node.inputs[number] if number < len(node.inputs) else None
            if isinstance(operand, Tensor) and operand.dtype in _INTEGERS:
                self._bound(operand, *bounds)
        operand = other = dimension = None
        if name in _INDEXES:
            place, whose, dimension = _INDEXES[name]
            operand, other = node.inputs[place], node.inputs[whose]
        elif name in _ALONG:
            operand, other = (node.inputs[place] for place in _ALONG[name])
            dimension = node.inputs[1]
        if isinstance(operand, Tensor) and isinstance(other, Tensor) and other.shape:
            self._bound(operand, 0, other.shape[min(dimension or 0, len(other.shape) - 1)] - 1)
        for made in tensors_of(node.outputs):
            version = self._now[(made.storage, made.device)]
            sources = {self._source(one) for one in told} - {None, version}
            if made.dtype in _INTEGERS and len(sources) == 1:
                self._from[version] = next(one for one in sources if one is not None)

    def _ranges(self, node: Node) -> dict[int, tuple[int, int]]:
        """Least and most of integer inputs, where the observer was told to keep them."""
        text = node.attributes.get("tensor_range")
        if not text:
            return {}
        try:
            return {int(n): (int(low), int(high)) for n, (low, high) in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{self._trace.path} is damaged: node {node.id}: its tensor_range"
            ) from error

    def _source(self, tensor: Tensor) -> int | None:
        version = self._now.get((tensor.storage, tensor.device))
        if version is None:
            return None  # a number
        version = self._from.get(version, version)
        return version if "external" in self._versions[version] else None

    def _bound(self, tensor: Tensor, least: int, most: int) -> None:
        source = self._source(tensor)
        if source is not None:
            known = self._versions[source]["external"].get("range")
            if known:
                least, most = max(least, known[0]), min(most, known[1])
            self._versions[source]["external"]["range"] = [least, max(least, most)]


def coverage(benchmark: Benchmark) -> tuple[int, Counter[str]]:
    """How many operators are called, and how often each proxy stands for what is not known."""
    events = [event for rank in benchmark.ranks for event in rank["events"]]
    proxies = Counter(
        event["name"] for event in events if event["do"] == "proxy" and event["launches"]
    )
    return sum(1 for event in events if event["do"] == "op"), proxies
