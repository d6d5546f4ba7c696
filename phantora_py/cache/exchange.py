"""What a cache holds as text: one JSON object a line, for other machines and for reading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.files.output_file import write_file
from sim_server.files.schema import Fault, parse
from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer
from sim_server.timing_cache import Row
from sim_server.timing_cache.entry import environment_of, row_of_values


def write_text(path: Path, rows: Iterable[Row]) -> None:
    """Raises: UsageError if `path` cannot be written."""
    lines = [
        json.dumps(asdict(environment) | asdict(one), sort_keys=True) for environment, one in rows
    ]
    write_file(path, "".join(f"{line}\n" for line in lines).encode(), "-o")


def read_text(path: Path) -> Iterator[Row]:
    """What `write_text` wrote. Raises: UsageError with the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            values = parse(line)
            environment = environment_of(values)
            row = row_of_values(
                {name: one for name, one in values.items() if name not in vars(environment)}
            )
            _check_signature(row.signature)
            yield environment, row
        except Fault as error:
            raise UsageError(
                f"{path}, line {number} is no measurement: {error}. Nothing was added."
            ) from error


def _check_signature(signature: Mapping[str, Any]) -> None:
    """It is one of docs/records.md: models know what it costs. Raises: Fault."""
    try:
        _TIMER.time(signature)
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
        raise Fault(f"signature: it is none of docs/records.md: {error!r}") from error


_TIMER = KernelTimer(load_gpu("h100"))
