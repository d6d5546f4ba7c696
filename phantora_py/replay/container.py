"""The file of a benchmark: a zip archive of JSON members (docs/traces.md tells the format)."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.files.output_file import writing
from sim_server.files.schema import (
    Check,
    Fault,
    anything,
    flag,
    mapping,
    one_of,
    optional,
    record,
    row,
    rows,
    text,
    whole,
)

VERSION = 1
_FORMAT = "phantora-benchmark"
_DATE = (1980, 1, 1, 0, 0, 0)  # the same input gives the same bytes
_HEAD = "benchmark.json"
_MOST_BYTES = 1 << 32

_CHECK_HEAD: Check = record(
    {
        "format": one_of([_FORMAT]),
        "version": one_of([VERSION]),
        "ranks": whole(1, 1 << 20),
        "groups": mapping(rows(whole(0, 1 << 20))),
        "only": optional(one_of(["compute", "communication"])),
        "has_streams": flag,
    },
    {"has_strides": flag},
)
_TENSOR: Check = row(whole(), whole(), text, rows(whole()), rows(whole()))
_CHECK_RANK: Check = record(
    {
        "schemas": rows(text),
        "tensors": rows(_TENSOR),
        "versions": rows(
            record({"bytes": whole(), "device": text, "dtype": text}, {"external": anything})
        ),
        "events": rows(
            record(
                {"do": one_of(["op", "proxy", "stream", "mark"])},
                dict.fromkeys(
                    (
                        "schema",
                        "name",
                        "args",
                        "outs",
                        "free",
                        "thread",
                        "group",
                        "call",
                        "stream",
                        "event",
                        "launches",
                        "waits",
                        "batch",
                        "graph",
                        "kind",
                    ),
                    anything,
                ),
            )
        ),
    }
)


@dataclass
class Benchmark:
    """What a file holds: `head`, and of each rank its operators, tensors and events."""

    head: dict[str, Any]
    ranks: list[dict[str, Any]]


def new_head(ranks: int, groups: dict[str, list[int]]) -> dict[str, Any]:
    """Of a benchmark that is whole."""
    return {
        **{"format": _FORMAT, "version": VERSION, "ranks": ranks, "groups": groups},
        **{"only": None, "has_streams": False},
    }


def write_benchmark(benchmark: Benchmark, path: Path) -> None:
    """Raises: UsageError if it cannot be written."""
    members = {_HEAD: benchmark.head}
    members |= {_member(rank): told for rank, told in enumerate(benchmark.ranks)}
    with writing(path, "-o") as file, zipfile.ZipFile(file, "w") as archive:
        for name, told in members.items():
            text_of = json.dumps(told, separators=(",", ":"), sort_keys=True)
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, text_of)


def read_benchmark(path: Path, only_rank: int | None = None) -> Benchmark:
    """All of a file, or of its ranks one alone, in the place of all.

    Raises: UsageError if it is missing, damaged, or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            head = _member_of(archive, _HEAD)
            if isinstance(head, dict) and head.get("version", VERSION) != VERSION:
                raise UsageError(
                    f"{path} has version {head['version']!r} of the format; version {VERSION} is "
                    "read. Build it again."
                )
            _CHECK_HEAD(head)
            wanted = range(head["ranks"]) if only_rank is None else [only_rank]
            if only_rank is not None and only_rank >= head["ranks"]:
                raise UsageError(f"{path} has {head['ranks']} ranks, and none is {only_rank}.")
            ranks = [_member_of(archive, _member(rank)) for rank in wanted]
            for told in ranks:
                _CHECK_RANK(told)
                _check_numbers(told)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, Fault) as error:
        raise UsageError(
            f"{path} is no benchmark, or is damaged: {error}. `phantora replay build` writes one."
        ) from error
    return Benchmark(head, ranks)


def _check_numbers(told: dict[str, Any]) -> None:
    """Raises: Fault if something refers to what is not there."""
    versions, tensors, schemas = len(told["versions"]), len(told["tensors"]), len(told["schemas"])
    for number, tensor in enumerate(told["tensors"]):
        if tensor[0] >= versions or len(tensor[3]) != len(tensor[4]):
            raise Fault(f"tensor {number} has no storage, or sizes without strides")
    for number, event in enumerate(told["events"]):
        args = [event.get("args", []), event.get("outs", [])]
        if any(not 0 <= one < tensors for one in tensor_numbers(args)) or any(
            not 0 <= one < versions for one in event.get("free", ())
        ):
            raise Fault(f"event {number} has a tensor that there is not")
        if event["do"] == "op" and not 0 <= event.get("schema", -1) < schemas:
            raise Fault(f"event {number} has an operator that there is not")


def tensor_numbers(value: Any) -> list[int]:
    """The tensors in encoded arguments, in order. Raises: Fault."""
    if isinstance(value, list):
        return [number for one in value for number in tensor_numbers(one)]
    if isinstance(value, dict) and "tensor" in value:
        if type(value["tensor"]) is not int:
            raise Fault("a tensor has no number")
        return [value["tensor"]]
    return []


def _member(rank: int) -> str:
    return f"rank-{rank}.json"


def _member_of(archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise Fault(f"{name} is too large")
    return json.loads(archive.read(name))
