"""Reading of a typed record from a TOML table by the schema in the record's own fields.

Strict: an unknown key, a missing one or a value of the wrong kind is a `UsageError` that names the
key, the file and what would be right.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from sim_server.cluster.limits import MOST_COUNT
from sim_server.errors import UsageError
from sim_server.files.schema import shown

Record = TypeVar("Record")

PROTOCOLS = ("LL", "LL128", "Simple")
"""NCCL's."""


class Setting(NamedTuple):
    """Annotation of a field: its key in the TOML table, and the parser of its value."""

    key: str
    parse: Callable[[object], object]
    """Raises ValueError with a message that says what would be right."""


class _Entry(NamedTuple):
    """A key that a table may have."""

    field: str
    parse: Callable[[object], object] | None
    """None for a table, which is read as `record`."""
    record: type
    required: bool
    repeated: bool = False
    """Whether it is a list of such tables."""


def read_record(record: type[Record], table: Mapping[str, Any], prefix: str, where: str) -> Record:
    """The record described by `table`.

    Fields are annotated with a `Setting`; a field without one is a table of the field's name, or a
    list of such tables.
    `prefix` is the path of the table ("" or "nic."), `where` names the cluster in messages.
    Raises: UsageError.
    """
    schema = _schema(record)
    for key in table:
        if key not in schema:
            hint = _suggest(key, schema, prefix)
            raise UsageError(f"{where}: unknown key '{prefix}{key}'; {hint}")
    values: dict[str, object] = {}
    for key, entry in schema.items():
        path = prefix + key
        if key in table:
            values[entry.field] = _read_value(entry, table[key], path, where)
        elif entry.required:
            raise UsageError(
                f"{where}: '{path}' is missing; add it, or start from a built-in cluster with "
                'base = "h100"'
            )
    return record(**values)


def _schema(record: type) -> dict[str, _Entry]:
    hints = get_type_hints(record, include_extras=True)
    schema = {}
    for field in dataclasses.fields(record):
        required = field.default is dataclasses.MISSING
        for setting in getattr(hints[field.name], "__metadata__", ()):
            schema[setting.key] = _Entry(field.name, setting.parse, record, required)
        if dataclasses.is_dataclass(hints[field.name]):
            schema[field.name] = _Entry(field.name, None, hints[field.name], required)
        elif dataclasses.is_dataclass(listed := next(iter(get_args(hints[field.name])), None)):
            assert isinstance(listed, type), "a type hint names types"
            schema[field.name] = _Entry(field.name, None, listed, required, repeated=True)
    return schema


def _read_value(entry: _Entry, value: object, path: str, where: str) -> object:
    if entry.parse is None and entry.repeated:
        if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
            raise UsageError(f"{where}: '{path}' is a list of tables; write each under [[{path}]]")
        return tuple(
            read_record(entry.record, one, f"{path} {number}: ", where)
            for number, one in enumerate(value, start=1)
        )
    if entry.parse is None:
        if isinstance(value, entry.record):  # read already
            return value
        if not isinstance(value, Mapping):
            raise UsageError(f"{where}: '{path}' is a table; write its keys under [{path}]")
        return read_record(entry.record, value, f"{path}.", where)
    try:
        return entry.parse(value)
    except ValueError as error:
        raise UsageError(f"{where}: {path}: {error}") from error


def _suggest(key: str, known: Mapping[str, object], prefix: str) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    if near:
        return f"did you mean '{prefix}{near[0]}'?"
    return f"known here: {', '.join(known)}"


def check_count(value: object) -> int:
    """A whole number of at least one. Raises: ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{shown(value)} is not a count; write a whole number of at least 1")
    if value > MOST_COUNT:
        raise ValueError(f"{shown(value)} is more than there can be; write at most {MOST_COUNT:,}")
    return value


def check_counts(value: object) -> tuple[int, ...]:
    """A list of whole numbers of at least one. Raises: ValueError."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list; write whole numbers, as [4, 4]")
    return tuple(map(check_count, value))


def check_protocols(value: object) -> tuple[str, ...]:
    """Some of NCCL's protocols, Simple among them. Raises: ValueError."""
    if (
        not isinstance(value, list)
        or any(one not in PROTOCOLS for one in value)
        or "Simple" not in value
    ):
        names = ", ".join(f'"{one}"' for one in PROTOCOLS)
        raise ValueError(f'{value!r} is not a list of some of {names} with "Simple" among them')
    return tuple(one for one in PROTOCOLS if one in value)


def check_non_negative(value: object) -> int:
    """A whole number of at least zero. Raises: ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{shown(value)} is not a whole number of at least 0")
    if value >= 1 << 63:
        raise ValueError(f"{shown(value)} is too large; write a number below 2 ** 63")
    return value


def check_ratio(value: object) -> float:
    """A number of at least one. Raises: ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < 1e6:
        raise ValueError(f"{value!r} is not a ratio; write a number of at least 1, as 2.0 for 2:1")
    return float(value)


def check_factor(value: object) -> float:
    """A positive number. Raises: ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise ValueError(f"{value!r} is not a factor; write a number above 0, as 1.1")
    return float(value)


def check_flag(value: object) -> bool:
    """True or false. Raises: ValueError."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def check_name(value: object) -> str:
    """A text that is not empty. Raises: ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a name; write a text in quotes")
    return value


def check_lower_name(value: object) -> str:
    """A name that means the same in capitals. Raises: ValueError."""
    return check_name(value).lower()


Choice = TypeVar("Choice", bound=Enum)


def check_choice(choices: type[Choice]) -> Callable[[object], Choice]:
    """A parser of one of the values of an enumeration. It raises ValueError."""

    def parse(value: object) -> Choice:
        names = [choice.value for choice in choices]
        if value not in names:
            raise ValueError(f"{value!r} is not known; use one of {', '.join(names)}")
        return choices(value)

    return parse
