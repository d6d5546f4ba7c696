"""A benchmark without the names of who made it: what is kept is listed here, all else is dropped.

Texts become tokens, hashes with a salt that is drawn for each file and never kept: equal texts of
a file have equal tokens, and no table of names tells which.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from phantora_py.replay.container import Benchmark
from phantora_py.replay.operators import parsed, resolved
from phantora_py.replay.player import DTYPES, STREAM
from sim_server.errors import UsageError

LEVELS = (1, 2)
_TOKEN_BYTES = 8
# Namespaces of PyTorch's own operators, and of libraries whose names everybody knows.
_OWN = (
    *("aten", "prim", "prims", "inductor", "quantized", "_quantized", "mkldnn", "onednn"),
    *("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "fsdp", "symm_mem"),
    "rngprims",
)
_PUBLIC = ("fbgemm", "torchvision")
_DEVICES = ("cpu", "cuda", "meta")
_CALLS = (
    *("set", "record", "wait", "sync_event", "sync_stream", "sync"),
    *("capture", "captured", "replay"),
)
# What PyTorch's operators take as texts: reductions, roundings, paddings, norms and so on.
_WORDS = (
    *("none", "tanh", "sum", "prod", "product", "mean", "avg", "max", "min", "amax", "amin"),
    *("add", "multiply", "band", "bor", "bxor", "floor", "trunc", "constant", "reflect"),
    *("replicate", "circular", "left", "right", "linear", "lower", "higher", "midpoint"),
    *("nearest", "fro", "nuc", "L", "U", "E", "reduced", "complete", "r", "xy", "ij"),
)


class _TextError(Exception):
    """An operator takes a text that is none of PyTorch's words."""


def obfuscate(benchmark: Benchmark, level: int, salt: bytes) -> tuple[Benchmark, Counter[str]]:
    """A new benchmark that calls the same on tensors of the same shapes, and operators that became
    proxies by their names, with how often. `benchmark` has all its ranks; `salt`: at most 64 B.

    At level 1 texts become tokens. So do operators that this PyTorch does not have, or that take
    free texts: they become proxies. At level 2 all operators but PyTorch's own are proxies, and
    proxies have no arguments but tensors.

    Raises: UsageError for types, devices or calls of streams that are not known.
    """
    if level not in LEVELS:
        raise UsageError(f"--level is {level}, and can be {' or '.join(map(str, LEVELS))}.")
    replaced: Counter[str] = Counter()
    head = benchmark.head
    groups = {"0": "0"}  # replay takes it for all ranks
    for number, name in enumerate(sorted({*head["groups"]} - {"0"}), 1):
        groups[name] = f"{number:06}-{_token(name, salt)}"  # they are made in the same order
    ranks = [_Rank(told, level, salt, groups, replaced).told() for told in benchmark.ranks]
    named = {groups[name]: list(members) for name, members in head["groups"].items()}
    return Benchmark(head | {"groups": named}, ranks), replaced


def _token(text: str, salt: bytes) -> str:
    return hashlib.blake2b(text.encode(), key=salt, digest_size=_TOKEN_BYTES).hexdigest()


class _Rank:
    """Rewrites one rank."""

    def __init__(
        self,
        told: dict[str, Any],
        level: int,
        salt: bytes,
        groups: dict[str, str],
        replaced: Counter[str],
    ) -> None:
        self._told = told
        self._level = level
        self._salt = salt
        self._groups = groups
        self._replaced = replaced
        self._schemas: dict[str, int] = {}
        self._numbers: dict[tuple[str, Any], int] = {}

    def told(self) -> dict[str, Any]:
        """All of the rank, as the container has it."""
        return {
            "tensors": [
                [version, offset, _known(dtype, DTYPES, "tensors of"), shape, strides]
                for version, offset, dtype, shape, strides in self._told["tensors"]
            ],
            "versions": [_version(row) for row in self._told["versions"]],
            "events": [self._event(event) for event in self._told["events"]],
            "schemas": list(self._schemas),
        }

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {"do": event["do"]}
        if "thread" in event:
            made["thread"] = self._number("thread", event["thread"])
        if "free" in event:
            made["free"] = event["free"]
        if event["do"] == "mark":
            made["name"] = _token(str(event.get("name")), self._salt)
            if "kind" in event:
                made["kind"] = int(event["kind"])
        elif event["do"] == "stream":
            made["call"] = _known(event.get("call"), _CALLS, "a call of streams")
            if event.get("stream") is not None:  # 0 is the default stream
                made["stream"] = event["stream"] and self._number("stream", event["stream"]) + 1
            if event.get("event") is not None:
                made["event"] = self._number("event", event["event"])
            if event.get("graph") is not None:
                made["graph"] = self._number("graph", event["graph"])
        else:
            made |= self._called(event)
        return made

    def _number(self, what: str, value: Any) -> int:
        """The system's numbers, as of threads, become those of their first use."""
        count = sum(1 for kind, _ in self._numbers if kind == what)
        return self._numbers.setdefault((what, value), count)

    def _called(self, event: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {"outs": _tensors_alone(event.get("outs", []))}
        if event.get("group") is not None:
            made["group"] = self._group(event["group"])
        if "waits" in event:
            made["waits"] = bool(event["waits"])
        if "batch" in event:
            made["batch"] = int(event["batch"])
        if event["do"] == "op":
            schema = self._told["schemas"][event["schema"]]
            try:
                return made | self._operator(schema, event.get("args", []))
            except _TextError:
                name, launches = schema.partition("(")[0], 1
            self._replaced[name] += 1
        else:
            name, launches = str(event.get("name")), int(event.get("launches", 1))
        given = event.get("args", [])
        args = _tensors_alone(given) if self._level > 1 else self._freed(given)
        return made | {
            **{"do": "proxy", "name": _token(name, self._salt)},
            **{"args": args, "launches": launches},
        }

    def _operator(self, schema: str, args: list[Any]) -> dict[str, Any]:
        """Raises: _TextError if it cannot be called without a text that is not known."""
        space = schema.partition("::")[0]
        is_kept = space in _OWN or (self._level == 1 and space in _PUBLIC)
        operator = resolved(schema) if is_kept else None
        if operator is None:
            raise _TextError
        kept = [
            self._argument(value, str(argument.type), argument.name)
            for argument, value in zip(parsed(schema).arguments, args, strict=False)
        ]
        # This PyTorch's text: the file's own might say anything in its defaults.
        number = self._schemas.setdefault(str(operator._schema), len(self._schemas))
        return {"schema": number, "args": kept}

    def _argument(self, value: Any, kind: str, name: str) -> Any:
        if isinstance(value, list):
            return [self._argument(one, kind, name) for one in value]
        if kind == STREAM:
            return None  # a replay takes the current one
        if not isinstance(value, str):
            return _tensor_or(value)
        if "Device" in kind and (device := value.partition(":")[0]) in _DEVICES:
            return device
        if name == "group_name":
            return self._group(value)
        if value in _WORDS:
            return value
        raise _TextError

    def _group(self, name: Any) -> str:
        return self._groups.get(str(name)) or _token(str(name), self._salt)

    def _freed(self, value: Any) -> Any:
        """Arguments of a proxy, with tokens as texts."""
        if isinstance(value, list):
            return [self._freed(one) for one in value]
        return _token(value, self._salt) if isinstance(value, str) else _tensor_or(value)


def _version(row: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "bytes": row["bytes"],
        "device": _known(row["device"], _DEVICES, "storages on"),
        "dtype": _known(row["dtype"], DTYPES, "storages of"),
    }
    if "external" in row:
        bounds = row["external"].get("range")
        made["external"] = {"range": [int(one) for one in bounds]} if bounds else {}
    return made


def _known(value: Any, known: Any, what: str) -> str:
    if value not in known:
        raise UsageError(
            f"the benchmark has {what} {value!r}, which is not known and might tell a name: "
            "obfuscate one without it."
        )
    return str(value)


def _tensor_or(value: Any) -> Any:
    """A tensor or a number as it is; None for anything else."""
    if isinstance(value, dict):
        return {"tensor": value["tensor"]} if "tensor" in value else None
    return value if isinstance(value, int | float) else None


def _tensors_alone(value: Any) -> Any:
    """Without numbers and texts, in the same places."""
    if isinstance(value, list):
        return [_tensors_alone(one) for one in value]
    return _tensor_or(value) if isinstance(value, dict) else None
