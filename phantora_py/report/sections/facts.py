"""Settings and versions of the run, on the page."""

from __future__ import annotations

from typing import Any

from phantora_py.report.page.part import PageFindings, PagePart


def _views(found: PageFindings) -> dict[str, Any]:
    return {"run": found.data.run}


PAGE = PagePart("facts", "Facts", _views)
