"""What ranks say about themselves beside their work, checked before anybody uses it.

docs/records.md has the forms. A payload that has another raises MalformedInput, which names the
rank.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sim_server._engine import Announcement, MalformedInput
from sim_server.records import MemoryKind, RecordKind, named_args

# Sizes, counts and times: as much as the data file's columns hold.
MOST: Final = 1 << 62
_MOST_WORD: Final = 1 << 64
_STATUSES: Final = range(-(1 << 31), 1 << 32)

# A form is `int` (a count), `str`, `bool`, [FORM] (a list of such), (FORM, ...) (a list of exactly
# these), {"name": FORM} (an object that has these members) or {str: FORM} (names to such).
_GAPS: Final = (int, int)
STATISTICS: Final[dict[str, Any]] = {
    "memory": {"device": int, "allocated_peak_bytes": int, "reserved_peak_bytes": int},
    "calls": {
        "library": str,
        "modelled": {str: int},
        "ignored": {str: int},
        "passthrough": {str: int},
    },
    "host_gaps": {"gaps": [(str, int, int)]},
    "replayed_gaps": {"signature": _GAPS, "family": _GAPS, "call": _GAPS, "fixed": _GAPS},
    "routing": {"calls": [(int, int, bool, int)]},
    "unsupported": {"calls": [(str, str, str, int, int)]},
    "batch": {"source": str, "key": str, "samples": int, "tokens": int},
    "data_parallel": {"ranks": [int], "parts": int},
    "recomputation": {"event": str},
    "host_tensors": {"skipped": [(str, int, int, int)], "used": [(int, int, int)]},
}
_UNSUPPORTED: Final = {"library": str, "symbol": str, "detail": str}


def check(announcement: Announcement) -> None:
    """Raises: MalformedInput if it is not of the form that its kind has."""
    kind = RecordKind(announcement.kind)
    try:
        _check(kind, announcement)
    except (ValueError, RecursionError) as error:
        raise malformed(announcement, str(error)) from None


def malformed(announcement: Announcement, what: str) -> MalformedInput:
    """The error that an announcement is."""
    kind = RecordKind(announcement.kind).name.lower().replace("_", " ")
    return MalformedInput(f"rank {announcement.rank}, an announcement of kind {kind}: {what}")


def _check(kind: RecordKind, announcement: Announcement) -> None:
    args = named_args(kind, announcement.args)
    if kind is RecordKind.SIGNATURE:
        _check_signature(announcement.payload)
    elif kind is RecordKind.UNSUPPORTED:
        call = json.loads(announcement.payload)
        check_form(call, _UNSUPPORTED)
        if call.get("answer", "stop") not in ("stop", "none", "error", "success"):
            raise ValueError(f"the answer {call['answer']!r}")
    elif kind is RecordKind.STATISTICS:
        _check_statistics(json.loads(announcement.payload))
    elif kind in {RecordKind.ALLOC, RecordKind.FREE, RecordKind.OUT_OF_MEMORY}:
        if kind is not RecordKind.OUT_OF_MEMORY and announcement.id not in list(MemoryKind):
            raise ValueError(f"memory of kind {announcement.id}")
        check_form(list(args.values()), [int])
    elif kind is RecordKind.SYNTHETIC_READ:
        check_form(args["bytes"], int)
    elif kind is RecordKind.EXIT and signed(args["status"]) not in _STATUSES:
        raise ValueError(f"the status {args['status']}")


def _check_statistics(told: object) -> None:
    check_form(told, {"kind": str})
    assert isinstance(told, dict)
    if told["kind"] not in STATISTICS:
        raise ValueError(f"statistics of kind {_short(told['kind'])}")
    check_form(told, STATISTICS[told["kind"]])


def _check_signature(payload: bytes) -> None:
    """Its members hang on what it is of; here, that models can do sums with them."""
    told = json.loads(payload, parse_constant=_refuse)
    if not isinstance(told, dict) or not isinstance(told.get("kind"), str):
        raise ValueError("a signature without a kind")
    _check_numbers(told)


def _check_numbers(value: object) -> None:
    if isinstance(value, dict):
        for one in value.values():
            _check_numbers(one)
    elif isinstance(value, list):
        for one in value:
            _check_numbers(one)
    elif isinstance(value, (int, float)) and not -_MOST_WORD < value < _MOST_WORD:
        raise ValueError(f"the number {value:.3g}")


def _refuse(constant: str) -> None:
    raise ValueError(f"the number {constant}")


def check_form(value: object, form: Any) -> None:
    """Raises: ValueError if the value has not that form, which STATISTICS explains."""
    if isinstance(form, type):
        good = type(value) is form and not (form is int and not 0 <= value < MOST)  # type: ignore[operator]
        if not good:
            raise ValueError(f"{_short(value)} where {_NAMES[form]} belongs")
    elif isinstance(form, tuple):
        if not isinstance(value, list) or len(value) != len(form):
            raise ValueError(f"{_short(value)} where a list of {len(form)} belongs")
        for one, its_form in zip(value, form, strict=True):
            check_form(one, its_form)
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise ValueError(f"{_short(value)} where a list belongs")
        for one in value:
            check_form(one, form[0])
    else:
        _check_object(value, form)


def _check_object(value: object, form: dict[Any, Any]) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{_short(value)} where an object belongs")
    if str in form:
        for one in value.values():
            check_form(one, form[str])
        return
    for name, its_form in form.items():
        if name not in value:
            raise ValueError(f"no {name!r} in {_short(value)}")
        check_form(value[name], its_form)


_NAMES: Final[dict[type, str]] = {int: "a count", str: "a text", bool: "true or false"}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def signed(word: int) -> int:
    """A 64-bit word of a record as the signed integer that the rank put there."""
    return word - (1 << 64) if word >> 63 else word


def text_of(announcement: Announcement) -> str:
    """A name or a Python line. File names are bytes, and so are the names of ranges."""
    return announcement.payload.decode(errors="replace")
