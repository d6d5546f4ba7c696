"""The timeline of the last whole iteration, on the page."""

from __future__ import annotations

from typing import Any

from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.page.timeline_data import timeline_data
from phantora_py.report.timeline import make_timeline


def _views(found: PageFindings) -> dict[str, Any]:
    timeline = make_timeline(found.data, found.last, found.path)
    return {
        "timeline": timeline_data(timeline),
        "merged_below_ns": timeline.merged_below_ns,
    }


PAGE = PagePart("timeline", "Timeline", _views)
