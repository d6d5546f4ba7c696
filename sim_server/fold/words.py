"""What a rank did, in words: one clause of a sentence (`sim_server.fold.steps`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sim_server.kernels.names import parse

_TEXT_LIMIT = 160
_What = Sequence[object]


def clause(what: _What) -> str:
    """As in "launched the kernel exp_kernel<float>". `what`: see `Step`."""
    kind, *details = what
    say = _SAID.get(str(kind))
    text = say(*details) if say else f"did {kind} {' '.join(map(str, details))}".strip()
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}..."


def clauses(one: _What, other: _What) -> tuple[str, str]:
    """Of two that differ; what they are told apart by is in the words."""
    said = clause(one), clause(other)
    if said[0] != said[1]:
        return said
    if one[0] == other[0] == "kernel":
        mine, theirs = _signature(one[1]), _signature(other[1])
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                return tuple(  # type: ignore[return-value]
                    f"{said[0]} with {name} {_short(sides.get(name))}" for sides in (mine, theirs)
                )
    return tuple(f"{said[0]} ({', '.join(map(str, what[1:]))})" for what in (one, other))  # type: ignore[return-value]


def _signature(text: object) -> dict[str, Any]:
    try:
        told = json.loads(str(text))
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}..."


def _kernel(signature: object, place: object) -> str:
    told = _signature(signature)
    if "name" in told:
        title = f"the kernel {parse(str(told['name'])).short}"
    elif told.get("kind") == "gemm":
        shape = " x ".join(str(told.get(side, "?")) for side in "mnk")
        title = f"a matrix product of {shape} ({told.get('library', 'cublas')})"
    elif "operation" in told:
        title = f"{told['operation']} of {told.get('library', 'a library')}"
    else:
        title = "a kernel of no known name"
    return f"launched {title} on {place}"


def _copy(kind: object, flags: object, size_bytes: object, place: object) -> str:
    del kind, flags
    return f"copied {size_bytes} bytes on {place}"


_SAID: Final[Mapping[str, Callable[..., str]]] = {
    "kernel": _kernel,
    "nccl_launch": lambda own, count, place: (
        f"started {count} operation{'s' * (count != 1)} of NCCL in {own} on {place}"
    ),
    "nccl_op": lambda name, own, count, dtype, *_: (
        f"asked for {name} of {count} x {dtype} in {own}"
    ),
    "wait": lambda what, place: f"waited for {what} ({place})",
    "copy": _copy,
    "fill": lambda size_bytes, place: f"filled {size_bytes} bytes on {place}",
    "marker": lambda what, name: f"marked {what} {name}".rstrip(),
    "alloc": lambda size_bytes: f"took {size_bytes} bytes of memory",
    "free": lambda size_bytes: f"gave back {size_bytes} bytes of memory",
    "exit": lambda status: f"ended with exit code {status}",
    "synthetic_read": lambda size_bytes: f"read {size_bytes} bytes of unknown values",
}
