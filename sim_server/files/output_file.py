"""Files that commands write: looked at before the work begins, put in place whole at its end.

A file is written under another name beside its place and renamed, so that nobody reads half of it.
A rename would also replace a device or a pipe: that is refused here, and only here is renamed
(`phantora_py/launch/sweeper.py`, which imports nothing, has a check of its own).
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sim_server.errors import UsageError

# What a disk that is full, or a quota or limit that is reached, refuses (assumed: a small file).
_TRIAL_BYTES = 1 << 16

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def partial_path(path: Path) -> Path:
    """Where a file lies until it is whole: beside what a link at `path` leads to."""
    place = path.resolve()
    return place.with_name(f".{place.name}.partial")


def require_output(path: Path, option: str, inputs: Iterable[Path] = ()) -> None:
    """Finds out before the work is done whether `path`, given with `option`, can be written, and is
    none of the `inputs`.

    Raises: UsageError.
    """
    _require_place(path, option)
    for one in inputs:
        if path.exists() and one.exists() and path.samefile(one):
            raise UsageError(f"{option} {path} is what is read: {one}. Name another file.")
    place = path.resolve()
    if not place.parent.is_dir():
        raise UsageError(
            f"{option} {path} cannot be written: the directory {place.parent} does not exist. Make "
            "it, or name another file."
        )
    if place.exists() and not os.access(place, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written: the file is read-only.")
    with _explained(path, option):
        _try_writing(place.parent)


def require_output_directory(path: Path, option: str) -> None:
    """Likewise a directory, which may be made later: the nearest one that there is must be
    writable.

    Raises: UsageError.
    """
    place = path.resolve()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        raise UsageError(
            f"{option} {path} cannot be written: {place} is not a directory. Name another one."
        )
    with _explained(path, option):
        _try_writing(place)


def put_in_place(partial: Path, path: Path) -> None:
    """Renames a file that is whole. Only a regular file is replaced.

    Raises: UsageError if something else is there by now; OSError.
    """
    _require_place(path, "output")
    partial.replace(path.resolve())


@contextmanager
def writing(path: Path, option: str) -> Iterator[BinaryIO]:
    """A file to write to, which appears at `path` at the end. Nothing is left if that fails.

    Raises: UsageError if it cannot be written.
    """
    _require_place(path, option)
    partial = partial_path(path)
    partial = partial.with_name(f"{partial.name}-{secrets.token_hex(4)}")
    with _explained(path, option):
        try:
            with partial.open("xb") as file:
                yield file
            put_in_place(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def write_file(path: Path, content: bytes, option: str) -> None:
    """Raises: UsageError if `path`, given with `option`, cannot be written."""
    with writing(path, option) as file:
        file.write(content)


def is_replaceable(path: Path) -> bool:
    """Whether `path`, links followed, is a regular file or nothing."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return not os.path.lexists(path.resolve())


def _require_place(path: Path, option: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, or links in a circle
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{option} {path} cannot be written: {said}.") from error
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise UsageError(
            f"{option} {path} cannot be written: it is {kind}. Name a file; one that is there is "
            "replaced."
        )


def _try_writing(directory: Path) -> None:
    """Raises: OSError if a file cannot be made there or has no room."""
    trial = directory / f".phantora-trial-{os.getpid()}-{secrets.token_hex(4)}"
    with trial.open("xb", buffering=0) as file:
        try:
            written = file.write(b"\0" * _TRIAL_BYTES)
            if written < _TRIAL_BYTES:  # the next write says why
                file.write(b"\0" * (_TRIAL_BYTES - written))
        finally:
            trial.unlink()


@contextmanager
def _explained(path: Path, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{option} {path} cannot be written: {error.strerror}. Make room or name another place."
        ) from error
