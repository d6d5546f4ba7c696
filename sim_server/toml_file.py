"""TOML files of ours and of the user."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a file. `what` it is, for messages. Raises: UsageError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{what} {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{what} {path}: is not TOML: {error}") from error
