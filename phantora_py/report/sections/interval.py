"""How sure the iteration time is."""

from __future__ import annotations

from rich.markup import escape

from phantora_py.report.certainty import IterationInterval
from phantora_py.report.findings import Findings
from phantora_py.text.units import duration_text, percent_text

_MOST_CLASSES = 3


def make(found: Findings) -> IterationInterval | None:
    """None without iterations, and for files that are older than intervals."""
    sure = found.certainty
    if sure is None or found.median_ns is None:
        return None
    return sure.to_dict(found.median_ns)


def lines(interval: IterationInterval | None) -> list[str]:
    """What the iteration time may be, and which classes that comes from."""
    if interval is None:
        return []
    between = f"{duration_text(interval['low_ns'])} to {duration_text(interval['high_ns'])}"
    most = "   ".join(
        f"{escape(one['class'])} -{percent_text(one['shorter'])} +{percent_text(one['longer'])}"
        for one in interval["classes"][:_MOST_CLASSES]
    )
    return [
        f"  iteration  {between} with {interval['confidence']:.0%} confidence; most from   {most}"
    ]
