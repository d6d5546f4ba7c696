"""Traces of PyTorch's observer: files, nodes, groups. What is damaged is refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from phantora_py.traces.folder import files_of_ranks
from sim_server.errors import UsageError

STREAM_CALL = "## phantora:stream ##"
MARK = "## phantora:mark ##"
KERNEL = "## phantora:kernel ##"
STEP = "Optimizer.step#"
COMMUNICATION_NODE = "record_param_comms"
_GROUPS = "## process_group:init ##"
_NAME = re.compile(r"(?:^|.*\D)(\d+)\.json")
_SCHEMA = re.compile(r"1\.[01]\.\d(-chakra\.0\.0\.4)?")
_OLD = ("shapes", "types")
MAP = "ranks.json"


@dataclass(frozen=True)
class Tensor:
    """A tensor as the observer tells it. Sizes, strides and `offset` are in elements."""

    storage: int
    offset: int
    itemsize: int
    device: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def extent_bytes(self) -> int:
        """How large its storage is at least."""
        if 0 in self.shape:
            return 0
        pairs = zip(self.shape, self.strides, strict=True)
        last = sum((size - 1) * stride for size, stride in pairs)
        return (self.offset + last + 1) * self.itemsize


@dataclass
class Node:
    """A node of the trace, with its arguments as Python has them and tensors as `Tensor`."""

    id: int
    parent: int
    name: str
    attributes: dict[str, Any]
    inputs: list[Any]
    outputs: list[Any]
    children: list[Node] = field(default_factory=list)

    @property
    def schema(self) -> str:
        """Of its operator; empty for other nodes."""
        return str(self.attributes.get("op_schema", ""))

    @property
    def collective(self) -> str:
        """What a node of communication tells of; empty for other nodes."""
        if self.name != COMMUNICATION_NODE:
            return ""
        texts = (one for one in self.inputs if isinstance(one, str))  # before schema 1.0.3
        return str(self.attributes.get("collective_name") or next(texts, ""))

    def below(self) -> Iterator[Node]:
        """It and what it called."""
        yield self
        for child in self.children:
            yield from child.below()


@dataclass
class ObservedTrace:
    """The trace of one rank."""

    path: Path
    nodes: dict[int, Node]
    has_strides: bool = True

    @cached_property
    def roots(self) -> list[Node]:
        """Nodes without a caller in the file."""
        return [node for node in self.nodes.values() if node.parent not in self.nodes]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Ranks of process groups by name; empty: all ranks. Raises: UsageError."""
        found: dict[str, list[int]] = {}
        for node in self.nodes.values():
            if node.name == _GROUPS:
                try:
                    told = json.loads(node.inputs[0])
                    found |= {str(one["pg_name"]): list(map(int, one["ranks"])) for one in told}
                except (ValueError, KeyError, IndexError, TypeError) as error:
                    raise _damaged(self.path, f"node {node.id}: its process groups") from error
        return found


def read_traces(directory: Path) -> list[ObservedTrace]:
    """The traces of all ranks in a folder, in order.

    Raises: UsageError if a rank's is missing, damaged or of an unknown version.
    """
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is no folder: name one that `phantora run --execution-trace` wrote."
        )
    files = files_of_ranks(directory, _NAME)
    if not files:
        raise UsageError(
            f"{directory} has no execution traces: files that end with a rank's number and .json. "
            "`phantora run --execution-trace DIR` writes such."
        )
    ranks = _ranks(directory, max(files) + 1)
    if missing := sorted({*range(ranks)} - set(files)):
        raise UsageError(f"{directory} lacks the trace of rank {missing[0]}, of {ranks} ranks.")
    return [read_trace(files[rank]) for rank in range(ranks)]


def _ranks(directory: Path, at_least: int) -> int:
    """As many as the map has, if there is one."""
    path = directory / MAP
    if not path.exists():
        return at_least
    try:
        named = json.loads(path.read_text(encoding="utf-8"))
        if len(set(named.values())) < len(named):
            raise UsageError(
                f"{directory} is of a folded run: most of its ranks have no trace of their own. "
                "Run the program again with all ranks."
            )
        return max(len(named), at_least)
    except (ValueError, AttributeError, TypeError) as error:
        raise _damaged(path, "it maps no ranks to files") from error


def read_trace(path: Path) -> ObservedTrace:
    """One file. Raises: UsageError."""
    try:
        told = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"it broke off, or is no JSON ({error})") from error
    schema = told.get("schema") if isinstance(told, dict) else None
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        raise UsageError(
            f"{path} has the schema {schema!r}; execution traces of PyTorch's observer with "
            "schemas 1.0 and 1.1 are read."
        )
    if "finish_ts" not in told:
        raise _damaged(path, "it broke off: its rank did not come to its end")
    nodes: dict[int, Node] = {}
    for row in told.get("nodes", ()):
        try:
            node = _node(row)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            name = row.get("id", "?") if isinstance(row, dict) else "?"
            raise _damaged(path, f"node {name}: {error}") from error
        if node.id in nodes:
            raise _damaged(path, f"two nodes have the number {node.id}")
        nodes[node.id] = node
    nodes = dict(sorted(nodes.items()))
    for node in nodes.values():
        if node.parent in nodes and node.parent != node.id:
            nodes[node.parent].children.append(node)
    return ObservedTrace(path, nodes, schema.startswith("1.1.1"))


def _node(row: dict[str, Any]) -> Node:
    if "attrs" in row:
        attributes = {one["name"]: one["value"] for one in row["attrs"]}
        sides = [_arguments(row[side]) for side in ("inputs", "outputs")]
        caller = row["ctrl_deps"]
    else:  # before schema 1.0.2
        attributes, caller = row, row["parent"]
        sides = [
            _arguments({"values": row[f"{side}s"]} | {part: row[f"{side}_{part}"] for part in _OLD})
            for side in ("input", "output")
        ]
    parent = -1 if caller == row["id"] else int(caller)
    return Node(int(row["id"]), parent, str(row["name"]), attributes, *sides)


def _arguments(side: dict[str, Any]) -> list[Any]:
    """Of a node. The observer leaves strides of its last numbers out, and before 1.1.1 all."""
    values, shapes, kinds = (side[part] for part in ("values", "shapes", "types"))
    strides = [*side["strides"], *[[]] * len(values)] if "strides" in side else [None] * len(values)
    told = zip(values, shapes, kinds, strides, strict=False)
    if len(shapes) != len(values) or len(kinds) != len(values):
        raise ValueError("its arguments have not a shape and a type each")
    return [_value(*parts) for parts in told]


def _value(value: Any, shape: Any, kind: str, strides: Any) -> Any:
    """An argument. Without strides a tensor is taken to be dense.

    Raises: ValueError if a list was cut.
    """
    if kind.startswith("Tensor(nullptr"):
        return None  # a tensor that is not defined
    if kind.startswith("Tensor("):
        _, storage, offset, _, itemsize, device = value
        if strides is not None and len(strides) != len(shape):
            raise ValueError("a tensor has not a stride for each size")
        return Tensor(
            *(storage, offset, itemsize, device, kind[len("Tensor(") : -1]),
            *(tuple(shape), dense(shape) if strides is None else tuple(strides)),
        )
    if kind.startswith(("GenericList[", "Tuple[")):
        kinds = _split(kind[kind.index("[") + 1 : -1])
        if not isinstance(value, list) or len(kinds) != len(value):
            raise ValueError("a list is cut, so that its tensors are not known")
        told = [None] * len(value) if strides is None else strides
        return [_value(*parts) for parts in zip(value, shape, kinds, told, strict=True)]
    if value == "<None>" or kind == "None":
        return None
    if kind in ("Double", "Float") and isinstance(value, str):
        return float(value)
    return value


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor whose rows lie behind each other."""
    made, stride = [], 1
    for size in reversed(shape):
        made.append(stride)
        stride *= max(size, 1)
    return tuple(made[::-1])


def _split(kinds: str) -> list[str]:
    """At the commas that are in no brackets."""
    found, depth = [""], 0
    for letter in kinds:
        depth += (letter in "[(<") - (letter in "])>")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found if found != [""] else []


def tensors_of(values: Any) -> Iterator[Tensor]:
    """All tensors in arguments, in order."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list):
        for value in values:
            yield from tensors_of(value)


def parents(trace: ObservedTrace, node: Node) -> Iterator[Node]:
    """Who called it, and who called that."""
    above = trace.nodes.get(node.parent)
    while above is not None:
        yield above
        above = trace.nodes.get(above.parent)


def _damaged(path: Path, what: str) -> UsageError:
    return UsageError(f"{path} is damaged: {what}. Trace the program again.")
