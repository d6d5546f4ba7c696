"""The file of a timing cache: SQLite, in which measurements are only ever added or pruned.

A row is one measurement, whole and with its checksum, so that merging is adding rows that are not
there yet: it loses nothing, whoever writes at the same time, and its order does not matter. The
write-ahead log lets readers read what was there when they began. A file that is damaged is not
used at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import Path

from sim_server.errors import UsageError
from sim_server.files.output_file import put_in_place, require_output
from sim_server.files.schema import Fault
from sim_server.timing_cache.entry import Entry, Environment, Failure, Measurement, Row, row_of

_APPLICATION = 0x50485443
_VERSION = 4
# 3: failures without a limit; 1 and 2: none. In 1 measurements had fewer fields, and what is
# missing is not known.
_OLD_VERSIONS = (1, 2, 3)
_MAGIC = b"SQLite format 3\0"
# A writer holds the lock for some milliseconds; a disk that hangs should not be taken for it.
_BUSY_S = 30.0
_LOOKS = 3
_SCHEMA = """
CREATE TABLE environment (
    id INTEGER PRIMARY KEY,
    gpu TEXT NOT NULL, driver TEXT NOT NULL, cuda TEXT NOT NULL, libraries TEXT NOT NULL,
    UNIQUE (gpu, driver, cuda, libraries)
);
CREATE TABLE measurement (
    environment INTEGER NOT NULL REFERENCES environment (id),
    content TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (environment, content)
);
"""
_SELECT = """
SELECT gpu, driver, cuda, libraries, content, checksum, measurement.rowid
FROM measurement JOIN environment ON environment.id = measurement.environment
"""


class Damaged(Exception):  # noqa: N818 - names what the file is
    """The file is no cache, or not a whole one. The message says how that was noticed."""


class TimingCache:
    """An open cache. Close it, or use it in a `with`."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        """Open `path`; with `write` it is made if there is none.

        Raises: Damaged; UsageError if it cannot be opened, or is of a later version.
        """
        self.path = path
        if write and not path.exists():
            _create(path)
        _check_header(path)
        self._connection = _connect(path, write)
        try:
            version = self._check()
            if write and version in _OLD_VERSIONS:
                # An earlier phantora would not understand what is about to be added.
                self._connection.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the use."""
        self._connection.close()

    def __enter__(self) -> TimingCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> int:
        """Returns the version of the format."""
        with _reading(self.path):
            (found,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found != "ok":
            raise Damaged(f"SQLite finds: {found}")
        if application != _APPLICATION:
            raise _another_s(self.path, "it is a database of another program")
        if version not in (*_OLD_VERSIONS, _VERSION):
            raise UsageError(
                f"{self.path} was written by another version of phantora (format {version}, this "
                f"one knows {_VERSION}); `phantora cache export` of that version makes a text of it"
            )
        return int(version)

    def measurements(self, gpu: str | None = None) -> Iterator[tuple[Environment, Measurement]]:
        """All, or those of a GPU; in the order of environment and signature. Raises: Damaged."""
        for environment, row in self.rows(gpu):
            if isinstance(row, Measurement):
                yield environment, row

    def failures(self, gpu: str | None = None) -> Iterator[tuple[Environment, Failure]]:
        """Likewise. Raises: Damaged."""
        for environment, row in self.rows(gpu):
            if isinstance(row, Failure):
                yield environment, row

    def rows(self, gpu: str | None = None) -> Iterator[Row]:
        """Both. Raises: Damaged."""
        condition, values = ("", ()) if gpu is None else (" WHERE gpu = ?", (gpu,))
        with _reading(self.path):
            rows = self._connection.execute(_SELECT + condition, values).fetchall()
        for *fields, content, checksum, number in sorted(rows, key=repr):
            environment = Environment(*fields)
            if not all(isinstance(one, str) for one in (*fields, content)):
                raise Damaged(f"measurement {number} is no text")
            if _checksum(environment, content) != checksum:
                raise Damaged(f"measurement {number} is not what was written")
            try:
                row = row_of(content)
            except Fault as fault:
                raise Damaged(f"measurement {number}: {fault}") from fault
            yield environment, row

    def entries(self, gpu: str | None = None) -> list[Entry]:
        """The measurements, those of one signature and environment together. Raises: Damaged."""
        together: dict[tuple[Environment, str], list[Measurement]] = {}
        for environment, one in self.measurements(gpu):
            together.setdefault((environment, one.key), []).append(one)
        return [Entry(environment, found) for (environment, _), found in together.items()]

    def add(self, rows: Iterable[Row]) -> list[Row]:
        """Adds what is not there yet, all or nothing. Returns that."""
        added = []
        with _reading(self.path), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            for environment, one in rows:
                fields, content = astuple(environment), one.to_json()
                connection.execute(
                    "INSERT OR IGNORE INTO environment (gpu, driver, cuda, libraries) "
                    "VALUES (?, ?, ?, ?)",
                    fields,
                )
                is_new = connection.execute(
                    "INSERT OR IGNORE INTO measurement SELECT id, ?, ? FROM environment "
                    "WHERE (gpu, driver, cuda, libraries) = (?, ?, ?, ?)",
                    (content, _checksum(environment, content), *fields),
                ).rowcount
                if is_new:
                    added.append((environment, one))
        return added

    def remove(self, rows: Iterable[Row]) -> list[Row]:
        """Removes these, and environments that nothing is left of. Returns those there were."""
        removed = []
        with _reading(self.path), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            for environment, one in rows:
                was_there = connection.execute(
                    "DELETE FROM measurement WHERE content = ? AND environment IN (SELECT id FROM "
                    "environment WHERE (gpu, driver, cuda, libraries) = (?, ?, ?, ?))",
                    (one.to_json(), *astuple(environment)),
                ).rowcount
                if was_there:
                    removed.append((environment, one))
            connection.execute(
                "DELETE FROM environment WHERE id NOT IN (SELECT environment FROM measurement)"
            )
        return removed


def set_aside(path: Path) -> Path:
    """Renames a damaged file and what belongs to it. Returns its new name."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    aside = path.with_name(f"{path.name}.damaged-{stamp}-{os.getpid()}")
    for suffix in ("", "-wal", "-shm"):
        # Another process may have found the same.
        with contextlib.suppress(FileNotFoundError):
            put_in_place(Path(f"{path}{suffix}"), Path(f"{aside}{suffix}"))
    return aside


def put_away(path: Path, damage: Damaged) -> UsageError:
    """Sets a damaged file aside. Returns what the user is told."""
    aside = set_aside(path)
    return UsageError(
        f"the cache {path} is damaged: {damage}. It was set aside as {aside}; nothing of it was "
        "used."
    )


def _another_s(path: Path, reason: str) -> UsageError:
    """Of a file that phantora has not written, and therefore does not move."""
    return UsageError(
        f"{path} is no timing cache: {reason}. It was left as it is; name another file."
    )


def _create(path: Path) -> None:
    """A new file, which appears whole; that of another process stays if it was quicker."""
    require_output(path, "the cache")
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.resolve().parent) as folder:
        made = Path(folder) / "cache"
        with contextlib.closing(sqlite3.connect(made)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.executescript(_SCHEMA)
        with contextlib.suppress(FileExistsError):
            os.link(made, path)


def _check_header(path: Path) -> None:
    """What SQLite would take for an empty database, or find out only when it comes to it."""
    for _ in range(_LOOKS):
        has_log = Path(f"{path}-wal").exists()  # then pages may be there only
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no file, and so no cache.")
        try:
            with path.open("rb") as file:
                header = file.read(100)
            size_bytes = path.stat().st_size
        except FileNotFoundError as error:
            raise UsageError(
                f"{path}: no such file; `phantora cache import` makes one of measurements"
            ) from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
        if len(header) < 100 or not header.startswith(_MAGIC):
            raise _another_s(path, "it does not begin as one")
        page_bytes = int.from_bytes(header[16:18], "big")
        page_bytes = 1 << 16 if page_bytes == 1 else page_bytes
        whole_bytes = page_bytes * int.from_bytes(header[28:32], "big")
        if has_log or size_bytes >= whole_bytes:
            return
        # Or another process was just writing it: then the log is there now, or the file is whole.
    raise Damaged(f"it has {size_bytes:,} bytes of {whole_bytes:,}")


def _connect(path: Path, write: bool) -> sqlite3.Connection:
    address = path.resolve().as_uri()
    for mode in ("?mode=rw",) if write else ("?mode=ro", "?mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{address}{mode}", uri=True, timeout=_BUSY_S)
        connection.isolation_level = None
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            # A reader of a folder that it may not write to cannot share the log.
            connection.close()
            failure = error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # its message may be none
            connection.close()
            raise Damaged(f"SQLite says: {error}") from error
        else:
            return connection
    raise UsageError(f"{path} cannot be opened: {failure}") from failure


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what SQLite finds wrong into our words."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise UsageError(f"{path} cannot be used: {error}") from error
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise  # a fault of ours, not of the file
    except sqlite3.DatabaseError as error:
        raise Damaged(f"SQLite says: {error}") from error
    except UnicodeDecodeError as error:
        raise Damaged(f"a text of it is none: {error}") from error


def _checksum(environment: Environment, content: str) -> int:
    return zlib.crc32(json.dumps([*astuple(environment), content]).encode())
