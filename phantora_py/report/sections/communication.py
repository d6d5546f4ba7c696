"""Where communication and waiting come from, on the page."""

from __future__ import annotations

from typing import Any

from phantora_py.report.communication import communication_rows
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.page.tables import exposed_table, waiting_table

# With uneven host time every rank is late somewhere.
_WAITS = 200


def _views(found: PageFindings) -> dict[str, Any]:
    return {
        "exposed": exposed_table(found.data, found.window),
        **waiting_table(found.data, found.window, _WAITS),
        "collectives": communication_rows(found.data, found.window),
    }


PAGE = PagePart("communication", "Communication", _views)
