"""Schemas of JSON values that come from a file: types, ranges and sizes, checked before use.

A schema is a `Check`: a function that takes a value and raises `Fault` for another one. Tables of
them say what a file may hold (`phantora_py/data/schema.py`, `sim_server/timing_cache/entry.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

Check = Callable[[Any], None]
"""Raises: Fault."""

MOST_BYTES = 1 << 62
MOST_NS = 1 << 56
"""Of virtual time, two years: sums of some do not overflow 64 bits."""
_SHOWN_CHARACTERS = 60
# Lists and objects within a text take memory beyond their characters (`parse`).
_LEAST_CONTAINERS = 1 << 13
_CHARACTERS_PER_CONTAINER = 16


class Fault(ValueError):  # noqa: N818 - names what is found
    """What is wrong, and where in the value."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path = ""

    def below(self, step: str) -> Fault:
        """The same, seen from the value that has it at `step`."""
        self.path = f"{step}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')}: {self.what}" if self.path else self.what


def parse(content: bytes | str, is_by_hand: bool = False) -> Any:
    """The value of a JSON text. Raises: Fault if it is none, or one that only an attack has: not a
    number, or brackets without end; in a text that is written by hand, a key twice.
    """
    brackets = (b"[", b"{") if isinstance(content, bytes) else ("[", "{")
    containers = sum(map(content.count, brackets))  # type: ignore[arg-type]
    if containers > _LEAST_CONTAINERS + len(content) // _CHARACTERS_PER_CONTAINER:
        raise Fault(f"it has {containers:,} lists and objects in {len(content):,} characters")
    try:
        pairs = _without_twice if is_by_hand else None
        return json.loads(content, parse_constant=_refuse_constant, object_pairs_hook=pairs)
    except RecursionError as error:
        raise Fault("its lists and objects lie too deep in each other") from error
    except Fault:
        raise
    except ValueError as error:  # UnicodeDecodeError is one, and so is a number of 5,000 digits
        raise Fault(f"it is not JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise Fault(f"it is not JSON: {name} is not a number")


def _without_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Fault(f"an object has {shown(key)} twice")
        found[key] = value
    return found


def shown(value: object) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def anything(value: object) -> None:
    """No requirement."""


def text(value: object) -> None:
    """A text."""
    if type(value) is not str:
        raise Fault(f"{shown(value)} is not a text")


def printable(value: object) -> None:
    """A text that can be written to a file and a database."""
    text(value)
    assert isinstance(value, str)
    if "\0" in value or not (value.isascii() or _is_encodable(value)):
        raise Fault(f"{shown(value)} is no text that can be written")


def _is_encodable(value: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in value)


def flag(value: object) -> None:
    """True or false."""
    if type(value) is not bool:
        raise Fault(f"{shown(value)} is neither true nor false")


def whole(least: int = 0, most: int = MOST_BYTES) -> Check:
    """A whole number in a range, both ends included."""

    def check(value: object) -> None:
        if type(value) is not int:
            raise Fault(f"{shown(value)} is not a whole number")
        if not least <= value <= most:
            raise Fault(f"{shown(value)} is not between {least} and {most}")

    return check


def number(least: float = -math.inf, most: float = math.inf) -> Check:
    """A finite number in a range."""

    def check(value: object) -> None:
        if type(value) is not int and type(value) is not float:
            raise Fault(f"{shown(value)} is not a number")
        if not (least <= value <= most) or abs(value) > _LARGEST:
            raise Fault(f"{shown(value)} is not a number from {least:g} to {most:g}")

    return check


_LARGEST = 1e300


def one_of(known: Collection[object]) -> Check:
    """One of a few values, of their types."""
    kinds = {type(one) for one in known}

    def check(value: object) -> None:
        if type(value) not in kinds or value not in known:
            raise Fault(f"{shown(value)} is none of {', '.join(map(repr, known))}")

    return check


def optional(check: Check) -> Check:
    """Null, or a value."""

    def check_optional(value: object) -> None:
        if value is not None:
            check(value)

    return check_optional


def rows(check: Check, most: int | None = None, least: int = 0) -> Check:
    """A list of such values."""

    def check_rows(value: object) -> None:
        if type(value) is not list:
            raise Fault(f"{shown(value)} is not a list")
        if len(value) < least or (most is not None and len(value) > most):
            raise Fault(f"a list of {len(value):,} entries is too short or too long")
        place = 0
        try:
            for place, one in enumerate(value):  # noqa: B007 - for the message
                check(one)
        except Fault as fault:
            raise fault.below(f"[{place}]") from None

    return check_rows


def wholes(least: int = 0, most: int = MOST_BYTES, fewest: int = 0) -> Check:
    """A list of whole numbers, quickly. `fewest`: entries."""
    slowly = rows(whole(least, most))

    def check(value: object) -> None:
        if type(value) is not list:
            raise Fault(f"{shown(value)} is not a list")
        if len(value) < fewest:
            raise Fault(f"a list of {len(value)} entries is too short")
        if not value:
            return
        if set(map(type, value)) != {int} or min(value) < least or max(value) > most:
            slowly(value)

    return check


def row(*checks: Check) -> Check:
    """A list with one value for each of `checks`."""

    def check_row(value: object) -> None:
        if type(value) is not list or len(value) != len(checks):
            raise Fault(f"{shown(value)} is not a list of {len(checks)} entries")
        place = 0
        try:
            for place, check in enumerate(checks):
                check(value[place])
        except Fault as fault:
            raise fault.below(f"[{place}]") from None

    return check_row


def record(
    required: Mapping[str, Check],
    known: Mapping[str, Check] | None = None,
    together: Collection[str] = (),
) -> Check:
    """An object with these keys, and perhaps those of `known`. Others are let be: a later version
    may write more. `together`: keys that are all there, or none.
    """
    may = {} if known is None else known

    def check_record(value: object) -> None:
        if type(value) is not dict:
            raise Fault(f"{shown(value)} is not an object")
        key = ""
        try:
            for key, check in required.items():
                check(value[key])
            for key in may.keys() & value.keys():
                may[key](value[key])
            if together and 0 < sum(one in value for one in together) < len(together):
                raise Fault(f"it has not all of {', '.join(together)}")
        except KeyError:
            raise Fault(f"it has no '{key}'") from None
        except Fault as fault:
            raise fault.below(f".{key}") from None

    return check_record


def mapping(check: Check, check_key: Check | None = None) -> Check:
    """An object of such values, whatever their keys are."""

    def check_mapping(value: object) -> None:
        if type(value) is not dict:
            raise Fault(f"{shown(value)} is not an object")
        key = ""
        try:
            for key, one in value.items():
                if check_key is not None:
                    check_key(key)
                check(one)
        except Fault as fault:
            raise fault.below(f".{key}") from None

    return check_mapping


def key_of(least: int, most: int) -> Check:
    """A key that is a number in a range, as JSON writes it."""

    def check(value: str) -> None:
        digits = value.isascii() and value.isdecimal() and len(value) <= 20
        if not digits or not least <= int(value) <= most:
            raise Fault(f"{shown(value)} is not a number between {least} and {most}")

    return check
