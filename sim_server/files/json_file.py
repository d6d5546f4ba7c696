"""JSON files of the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.files.toml_file import read_text


def read_json(path: Path, what: str) -> Any:
    """What a file holds. `what` it is, for messages. Raises: UsageError."""
    text = read_text(path, what)
    try:
        return json.loads(text)
    except RecursionError as error:
        raise UsageError(f"{what} {path}: its lists lie too deep in each other") from error
    except ValueError as error:
        raise UsageError(f"{what} {path} is no JSON: {error}") from error
