"""The token that agents show a server. Who has it may simulate there, so it is a password.

It comes from a file or from the environment. On a command line every user of the machine could read
it (/proc/PID/cmdline).
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from sim_server.errors import UsageError

VARIABLE = "PHANTORA_TOKEN"
_TOKEN_BYTES = 16
_MOST_CHARACTERS = 1024


def new_token() -> str:
    """A secret that nobody guesses."""
    return secrets.token_hex(_TOKEN_BYTES)


def same_token(given: object, token: str) -> bool:
    """Takes the same time wherever they differ."""
    return isinstance(given, str) and hmac.compare_digest(given.encode(), token.encode())


def take_token(path: Path | None, environment: MutableMapping[str, str]) -> str | None:
    """The token of the file, or else of PHANTORA_TOKEN, which is removed from `environment`: no
    process that is started later shall inherit it. None if there is neither.

    Raises: UsageError if it cannot be read or is not a token.
    """
    from_environment = environment.pop(VARIABLE, None)
    if path is None:
        return from_environment and _check(from_environment.strip(), VARIABLE)
    try:
        return _check(path.read_bytes().decode("ascii").strip(), f"the token file {path}")
    except UnicodeDecodeError as error:
        raise _not_a_token(f"the token file {path}") from error
    except OSError as error:
        raise UsageError(f"The token file {path} cannot be read: {error.strerror}.") from error


def make_token_file(path: Path) -> None:
    """Writes a new token into a new file that only this user can read.

    Raises: UsageError if that is not possible.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{new_token()}\n")
    except OSError as error:
        raise UsageError(f"The token file {path} cannot be made: {error.strerror}.") from error


def _check(token: str, where: str) -> str:
    words = token.split()
    if len(words) != 1 or len(token) > _MOST_CHARACTERS or not token.isascii():
        raise _not_a_token(where)
    if not token.isprintable():
        raise _not_a_token(where)
    return token


def _not_a_token(where: str) -> UsageError:
    return UsageError(
        f"There is no token in {where}: it is one word of at most {_MOST_CHARACTERS} printable "
        "ASCII characters."
    )
