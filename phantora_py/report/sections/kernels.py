"""Kernels by class and one by one, on the page."""

from __future__ import annotations

from typing import Any

from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.page.tables import kernel_tables


def _views(found: PageFindings) -> dict[str, Any]:
    return {**kernel_tables(found.data, found.window)}


PAGE = PagePart("kernels", "Kernels", _views)
