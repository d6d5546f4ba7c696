"""What became of calls that are not modelled, where the user let the program go on after them
(docs/decisions/unsupported-calls.md).
"""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from phantora_py.data import RunData

ANSWERS = {"success": "did nothing and took no time", "error": "failed as not supported"}


def unsupported_calls(data: RunData) -> dict[str, Any]:
    """The entry of the summary: `mode` is None for files of earlier versions."""
    totals: dict[tuple[str, ...], dict[str, Any]] = {}
    names = ("library", "symbol", "detail", "answer", "site")
    for call in data.unsupported_calls:
        one = {name: call[name] for name in names}
        total = totals.setdefault(tuple(one.values()), one | {"ranks": 0, "count": 0})
        total["ranks"] += 1
        total["count"] += call["count"]
    calls = sorted(totals.values(), key=lambda call: (-call["count"], call["symbol"], call["site"]))
    return {
        "mode": data.run.get("unsupported"),
        "skipped": sum(call["count"] for call in calls if call["answer"] == "success"),
        "refused": sum(call["count"] for call in calls if call["answer"] == "error"),
        "calls": calls,
    }


def mark(unsupported: dict[str, Any]) -> str:
    """What marks a result to which calls contributed that are not modelled; "" for another."""
    counts = (
        (unsupported["skipped"], ANSWERS["success"]),
        (unsupported["refused"], ANSWERS["error"]),
    )
    said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    return f"of the calls that are not modelled {said}" if said else ""


def unsupported_lines(unsupported: dict[str, Any], most: int) -> list[str]:
    """Lines of rich markup under the number of calls."""
    if not unsupported["calls"]:
        return []
    lines = [
        f"  [red]not modelled, and the program went on (--unsupported {unsupported['mode']}):[/]"
    ]
    for call in unsupported["calls"][:most]:
        detail = f" {call['detail']}" if call["detail"] else ""
        where = f"{call['symbol']} of {call['library']}{detail}, at {call['site']}"
        lines.append(f"    {call['count']:,} {ANSWERS[call['answer']]}: {escape(where)}")
    left_out = len(unsupported["calls"]) - most
    return [*lines, f"    and {left_out} more"] if left_out > 0 else lines
