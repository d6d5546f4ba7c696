"""How far the result may be trusted: the head of the sections that say so, and their place on the
page.
"""

from __future__ import annotations

from typing import Any

from phantora_py.report.kernels import doubts
from phantora_py.report.page.overview import ignored_calls
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.sections import by_machine, caveats, interval, unsimulated
from phantora_py.report.sections.unknown_reads import difference_text
from phantora_py.report.sections.unsupported import ANSWERS

# Of each tier: more would not be read (assumed).
_DOUBTS = 5


def lines() -> list[str]:
    """On a terminal."""
    return ["[bold]Trust[/]"]


def _views(found: PageFindings) -> dict[str, Any]:
    sure = interval.make(found)
    return {
        "doubts": doubts(found.data, _DOUBTS, sure["classes"] if sure else []),
        "ignored": ignored_calls(found.data),
        "answers": ANSWERS,
        "difference_text": difference_text,
        "unsimulated_mark": unsimulated.mark(unsimulated.make(found)),
        "caveat_marks": caveats.marks(caveats.make(found)),
        "by_machine_marks": by_machine.marks(by_machine.make(found)),
    }


PAGE = PagePart("trust", "Trust", _views)
