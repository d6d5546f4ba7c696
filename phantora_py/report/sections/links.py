"""How busy links were, on the page."""

from __future__ import annotations

from typing import Any

from phantora_py.report.page.link_strips import link_strips
from phantora_py.report.page.part import PageFindings, PagePart


def _views(found: PageFindings) -> dict[str, Any]:
    return link_strips(found.data, found.last)


PAGE = PagePart("links", "Links", _views)
