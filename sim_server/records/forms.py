"""Whether what JSON says has the form that a type says: the check of payloads by their schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

from sim_server.records.payloads import COUNT

# Sizes, counts and times: as much as the data file's columns hold.
MOST: Final = 1 << 62
# Other integers: signed or unsigned words.
_WORDS: Final = range(-(1 << 63), 1 << 64)
_NAMES: Final[dict[Any, str]] = {str: "a text", bool: "true or false", dict: "an object"}


@dataclass(frozen=True)
class Member:
    """One of a payload."""

    name: str
    form: Any
    """`int`, `str`, `bool`, or a `Literal`, `list`, `dict` or `tuple`, each perhaps `Annotated`."""
    is_optional: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What the schema says of it."""
        return tuple(note for note in notes_of(self.form) if note is not COUNT)

    @property
    def constant(self) -> str | bool | None:
        """The one value that it can have; None: it can have others."""
        values = get_args(self.form) if get_origin(self.form) is Literal else ()
        return values[0] if len(values) == 1 else None


@cache
def members(payload: type) -> tuple[Member, ...]:
    """In the order in which they are written: those that all have, then the others."""
    hints = get_type_hints(payload, include_extras=True)
    required = payload.__required_keys__  # type: ignore[attr-defined]
    told = [Member(name, form, name not in required) for name, form in hints.items()]
    return tuple(sorted(told, key=lambda member: member.is_optional))


def plain(form: Any) -> Any:
    """Without what the schema says of it."""
    return get_args(form)[0] if get_origin(form) is Annotated else form


def notes_of(form: Any) -> tuple[str, ...]:
    """What the schema says of it."""
    return get_args(form)[1:] if get_origin(form) is Annotated else ()


def payload_of(value: object, payloads: Sequence[type]) -> type:
    """The first of these whose `Literal` members the value has. Raises: ValueError."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ValueError(f"{_short(value)} has no kind")
    for payload in payloads:
        if all(
            value.get(member.name) in get_args(member.form)
            for member in members(payload)
            if get_origin(member.form) is Literal
        ):
            return payload
    names = {name: value[name] for name in ("kind", "library", "operation") if name in value}
    raise ValueError(f"{_short(names)} is none of docs/records.md")


def check_payload(value: object, payload: type) -> None:
    """Raises: ValueError if the value is not of that class."""
    if not isinstance(value, dict):
        raise ValueError(f"{_short(value)} where an object belongs")
    known = members(payload)
    for member in known:
        if member.name in value:
            _check(value[member.name], member.form)
        elif not member.is_optional:
            raise ValueError(f"no {member.name!r} in {_short(value)}")
    if unknown := value.keys() - {member.name for member in known}:
        raise ValueError(f"{_short(min(unknown))} is no member of {_short(value)}")


def _check(value: object, form: Any) -> None:
    origin, parts = get_origin(plain(form)), get_args(plain(form))
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"{_short(value)} where one of {', '.join(parts)} belongs")
    elif origin is None:
        _check_scalar(value, plain(form), is_count=COUNT in notes_of(form))
    elif origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{_short(value)} where an object belongs")
        for one in value.values():
            _check(one, parts[1])
    elif not isinstance(value, list):
        raise ValueError(f"{_short(value)} where a list belongs")
    elif origin is list:
        for one in value:
            _check(one, parts[0])
    elif len(value) != len(parts):
        raise ValueError(f"{_short(value)} where a list of {len(parts)} belongs")
    else:
        for one, its_form in zip(value, parts, strict=True):
            _check(one, its_form)


def _check_scalar(value: object, kind: type, *, is_count: bool) -> None:
    good = type(value) is kind
    if kind is int:
        good = good and value in (range(MOST) if is_count else _WORDS)
    if not good:
        name = "a count" if is_count else _NAMES.get(kind, "an integer of 64 bits")
        raise ValueError(f"{_short(value)} where {name} belongs")


def check_count(value: object) -> None:
    """Raises: ValueError if it is no size, count or time."""
    _check_scalar(value, int, is_count=True)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
