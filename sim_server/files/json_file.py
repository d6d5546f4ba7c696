"""JSON files of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.files.schema import Fault, parse
from sim_server.files.toml_file import read_text


def read_json(path: Path, what: str) -> Any:
    """What a file holds. `what` it is, for messages. Raises: UsageError."""
    try:
        return parse(read_text(path, what), is_by_hand=True)
    except Fault as fault:
        raise UsageError(f"{what} {path}: {fault}") from fault
