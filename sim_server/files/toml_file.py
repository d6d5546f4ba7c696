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


# Descriptions and logs are some kilobytes (assumed).
_MOST_BYTES = 64 << 20


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a file. `what` it is, for messages. Raises: UsageError."""
    return parse_toml(read_text(path, what), f"{what} {path}")


def read_text(path: Path, what: str, errors: str = "strict") -> str:
    """A text that a person wrote, or a program for persons. `what` it is, for messages. `errors`:
    of bytes that are no UTF-8, as of `bytes.decode`.

    Raises: UsageError.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{what} {path}: cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{what} {path}: is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path}: is no text: {error}") from error


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The tables of a text. Raises: UsageError."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{where}: its tables lie too deep in each other") from error
    except ValueError as error:
        raise UsageError(f"{where}: is not TOML: {error}") from error
