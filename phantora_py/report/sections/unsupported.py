"""What became of calls that are not modelled, where the user let the program go on after them
(docs/decisions/unsupported-calls.md).
"""

from __future__ import annotations

from typing import TypedDict

from rich.markup import escape

from phantora_py.report.findings import Findings

ANSWERS = {"success": "did nothing and took no time", "error": "failed as not supported"}


_MOST_CALLS = 5


class UnsupportedCall(TypedDict):
    """Calls of one kind from one Python line."""

    library: str
    symbol: str
    detail: str
    """Of a call that is modelled otherwise; empty for others."""
    answer: str
    """`success` or `error`."""
    site: str
    ranks: int
    count: int


class UnsupportedCalls(TypedDict):
    """Calls that are not modelled and that the program went on after
    (docs/decisions/unsupported-calls.md).
    """

    mode: str | None
    """As --unsupported; null for files of earlier versions."""
    skipped: int
    """Did nothing and succeeded."""
    refused: int
    """Failed."""
    calls: list[UnsupportedCall]


def make(found: Findings) -> UnsupportedCalls:
    """The entry of the summary."""
    totals: dict[tuple[str, ...], UnsupportedCall] = {}
    for call in found.data.unsupported_calls:
        one: UnsupportedCall = {
            "library": call["library"],
            "symbol": call["symbol"],
            "detail": call["detail"],
            "answer": call["answer"],
            "site": call["site"],
            "ranks": 0,
            "count": 0,
        }
        key = (one["library"], one["symbol"], one["detail"], one["answer"], one["site"])
        total = totals.setdefault(key, one)
        total["ranks"] += 1
        total["count"] += call["count"]
    calls = sorted(totals.values(), key=lambda call: (-call["count"], call["symbol"], call["site"]))
    return {
        "mode": found.data.run.get("unsupported"),
        "skipped": sum(call["count"] for call in calls if call["answer"] == "success"),
        "refused": sum(call["count"] for call in calls if call["answer"] == "error"),
        "calls": calls,
    }


def mark(unsupported: UnsupportedCalls) -> str:
    """What marks a result to which calls contributed that are not modelled; "" for another."""
    counts = (
        (unsupported["skipped"], ANSWERS["success"]),
        (unsupported["refused"], ANSWERS["error"]),
    )
    said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    return f"of the calls that are not modelled {said}" if said else ""


def headline(unsupported: UnsupportedCalls) -> list[str]:
    """On a terminal, at the head."""
    marked = mark(unsupported)
    return [f"[red]not a full model[/]   {marked}"] if marked else []


def lines(unsupported: UnsupportedCalls) -> list[str]:
    """On a terminal, under the number of calls."""
    if not unsupported["calls"]:
        return []
    said = [
        f"  [red]not modelled, and the program went on (--unsupported {unsupported['mode']}):[/]"
    ]
    for call in unsupported["calls"][:_MOST_CALLS]:
        detail = f" {call['detail']}" if call["detail"] else ""
        where = f"{call['symbol']} of {call['library']}{detail}, at {call['site']}"
        said.append(f"    {call['count']:,} {ANSWERS[call['answer']]}: {escape(where)}")
    left_out = len(unsupported["calls"]) - _MOST_CALLS
    return [*said, f"    and {left_out} more"] if left_out > 0 else said
