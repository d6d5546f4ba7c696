"""What a cache holds as text: one JSON object a line, for other machines and for reading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from sim_server.errors import UsageError
from sim_server.output_file import write_file
from sim_server.timing_cache import Environment, Row
from sim_server.timing_cache.entry import row_of


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
            values = json.loads(line)
            fields = {name: values.pop(name) for name in ("gpu", "driver", "cuda", "libraries")}
            yield Environment(**fields), row_of(json.dumps(values))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{path}, line {number} is no measurement: {error}. Nothing was added."
            ) from error
