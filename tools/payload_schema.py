"""Makes what follows from the schema of payloads: structures for C++ and a page of docs.

python tools/payload_schema.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from sim_server.records.forms import Member, members, plain
from sim_server.records.payloads import (
    SIGNATURES,
    STATISTICS_OF_SHIM,
    KeptLaunch,
    UnsupportedCall,
)
from sim_server.records.python_statistics import STATISTICS

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "csrc/protocol/payloads.h"
PAGE = ROOT / "docs/records.md"
WRITTEN_BY_SHIM = (*SIGNATURES, KeptLaunch, *STATISTICS_OF_SHIM, UnsupportedCall)

_HEADER_HEAD = """\
// What a rank says in JSON. `each` gives the members of a payload, in the order in which they
// are written.
// Made by tools/payload_schema.py from sim_server/records/payloads.py, which says what they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ph::payloads {

// Text that is JSON already.
struct Json {
  std::string text;
};
"""
_PAGE_HEAD = """\
# Record payloads

What follows some [records](record-kinds.md), as JSON. Made by `python tools/payload_schema.py` from
`sim_server/records/payloads.py`; a test compares. A payload has the members of its table, and
those of them that are optional where they apply. The server refuses another, and names the rank.
"""
_SECTIONS = (
    (
        "Signatures",
        "A signature identifies the work of one kernel or library call. It holds what a timing\n"
        "model needs and nothing that changes between equal launches: no pointers, no\n"
        "floating-point numbers, no stream.",
        SIGNATURES,
    ),
    (
        "Launches for an executor",
        "With `--gpu`, beside the record stream.",
        (KeptLaunch,),
    ),
    ("Unsupported calls", "At the first call from a line of the program.", (UnsupportedCall,)),
    ("Statistics", "At a rank's end, at optimizer steps, and where they say when.", STATISTICS),
)
_SCALARS = {int: "std::int64_t", str: "std::string", bool: "bool"}


def header() -> Iterator[str]:
    """The C++ header, line by line."""
    yield _HEADER_HEAD
    for payload in WRITTEN_BY_SHIM:
        yield from _structure(payload)
    yield "}  // namespace ph::payloads"


def _structure(payload: type) -> Iterator[str]:
    yield f"struct {payload.__name__} {{"
    told = members(payload)
    for member in told:
        if member.constant is None:
            kind = cpp_type(member.form)
            optional = f"std::optional<{kind}>" if member.is_optional else kind
            default = " = {}" if member.is_optional or kind in ("bool", "std::int64_t") else ""
            yield f"  {optional} {member.name}{default};"
    yield ""
    yield "  template <class Each>"
    yield "  void each(Each&& one) const {"
    for member in told:
        yield f'    one("{member.name}", {_value(member)});'
    yield "  }\n};\n"


def _value(member: Member) -> str:
    if member.constant is None:
        return member.name
    return "true" if member.constant is True else f'std::string("{member.constant}")'


def cpp_type(form: Any) -> str:
    """What holds a value of that form. Raises: TypeError for one that has no C++."""
    form = plain(form)
    if form == dict[str, Any]:
        return "Json"
    origin = get_origin(form)
    parts = [cpp_type(part) for part in get_args(form) if origin is not Literal]
    if origin is Literal:
        return "std::string"
    if origin is tuple:
        return f"std::tuple<{', '.join(parts)}>"
    if origin is list:
        return f"std::vector<{parts[0]}>"
    if origin is dict:
        return f"std::vector<std::pair<{', '.join(parts)}>>"
    if form in _SCALARS:
        return _SCALARS[form]
    raise TypeError(f"a payload cannot hold {form}")


def page() -> Iterator[str]:
    """The page, line by line."""
    yield _PAGE_HEAD
    for title, text, payloads in _SECTIONS:
        yield f"## {title}\n\n{text}\n"
        for payload in payloads:
            doc = " ".join((payload.__doc__ or "").split())
            yield f"### {payload.__name__}\n\n" + "\n".join(textwrap.wrap(doc, 125)) + "\n"
            yield "| member | is | what |\n| --- | --- | --- |"
            yield from (_row(member) for member in members(payload))
            yield ""


def _row(member: Member) -> str:
    what = ", ".join(["optional"] * member.is_optional + list(member.notes))
    return f"| `{member.name}` | {_form_text(member.form)} | {what} |"


def _form_text(form: Any) -> str:
    form = plain(form)
    origin = get_origin(form)
    if origin is Literal:
        return " or ".join(f"`{'true' if value is True else value}`" for value in get_args(form))
    parts = [_form_text(part) for part in get_args(form)]
    if origin is tuple:
        return f"[{', '.join(parts)}]"
    if origin is list:
        return f"list of {parts[0]}"
    if origin is dict:
        return f"names to {parts[1]}"
    return {int: "integer", str: "text", bool: "true or false", Any: "anything"}[form]


def main() -> None:
    """Writes both."""
    HEADER.write_text("\n".join(header()) + "\n", encoding="utf-8")
    PAGE.write_text("\n".join(page()).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
