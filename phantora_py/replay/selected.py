"""Which nodes of a trace are replayed, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from phantora_py.replay.observed import (
    KERNEL,
    MARK,
    STEP,
    STREAM_CALL,
    Node,
    ObservedTrace,
    parents,
    tensors_of,
)
from phantora_py.replay.operators import COMMUNICATION, is_composite, resolved

_WRAPPERS = ("PythonSubclass", "PythonDispatchMode")


_BACKWARD = "autograd::engine::"
_CONTROL = ("wait", "batch_op_issue")
"""What nodes of communication tell beside the operators: a wait for one, the end of a batch."""


def events(trace: ObservedTrace, only: str | None, subgraph: str | None) -> list[Node]:
    """What is replayed, in order."""
    found = []
    for root in trace.roots:
        for order, node in _selected(root):
            if subgraph and not any(one.name == subgraph for one in parents(trace, node)):
                continue
            is_communication = node.schema.partition("::")[0] in COMMUNICATION
            if node.schema and only and (only == "communication") != is_communication:
                continue
            found.append((order, node))
    found.sort(key=lambda pair: pair[0])
    return _with_last_steps(trace, [node for _, node in found])


def _with_last_steps(trace: ObservedTrace, nodes: list[Node]) -> list[Node]:
    """Without steps of optimizers that do not end an iteration: where the trace has marks, and
    where another optimizer's step follows before anything is differentiated."""
    has_marks = any(node.name == MARK for node in nodes)
    kept, is_last = [], not has_marks
    for node in reversed(nodes):
        if node.name.startswith(STEP):
            if not is_last:
                continue
            is_last = False
        elif not has_marks and not is_last:
            is_last = any(one.name.startswith(_BACKWARD) for one in parents(trace, node))
        kept.append(node)
    return kept[::-1]


def _selected(node: Node) -> Iterator[tuple[float, Node]]:
    if node.name.startswith(STEP):
        # The step is over after the last that it calls.
        yield max(one.id for one in node.below()) + 0.5, node
    elif node.name in (STREAM_CALL, MARK) or node.collective in _CONTROL:
        yield node.id, node
        return
    elif _is_replayed(node):
        yield node.id, node
        # An operator that is not waited for, as gloo's, seems to have called those after it.
        space = node.schema.partition("::")[0]
        if space == "c10d":
            for child in node.children:
                if child.schema.startswith("c10d::") and child.name != node.name:
                    yield from _selected(child)
        return
    for child in node.children:
        yield from _selected(child)


def _is_replayed(node: Node) -> bool:
    """Whether it is called itself, not what it calls."""
    if not node.schema:
        return node.name == KERNEL or bool(node.attributes.get("kernel_backend"))
    tensors = tensors_of([node.inputs, node.outputs])
    is_fake = any(one.device == "meta" for one in tensors)
    if is_fake or any(child.name in _WRAPPERS for child in node.children):
        return False
    called = [one for child in node.children for one in child.below() if one.schema]
    return not called or not _is_done_by(node, called)


def _is_done_by(node: Node, called: list[Node]) -> bool:
    """Whether what an operator calls is all that it does."""
    name, places = node.schema.partition("(")[0], devices(node)
    if any(one.schema.partition("(")[0] == name and devices(one) == places for one in called):
        return True  # a wrapper, as autocast's: the inner one has the tensors it works with
    if resolved(node.schema) is not None:
        return is_composite(node.schema)
    made = {one.storage for inner in called for one in tensors_of(inner.outputs)}
    return all(one.storage in made for one in tensors_of(node.outputs))


def devices(node: Node) -> set[str]:
    """Of its operands. A simulated rank also works out small values on the CPU, below the
    operator that it does so for."""
    found = {one.device for one in tensors_of(node.inputs)}
    return found - {"cpu"} or found
