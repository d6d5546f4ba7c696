"""docs/reference.md is what its tool makes today."""

from __future__ import annotations

from pathlib import Path

import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"


def test_the_page_is_up_to_date() -> None:
    """To make it anew: python tools/reference.py > docs/reference.md"""
    assert PAGE.read_text(encoding="utf-8") == "\n".join(reference.page()) + "\n"


def test_nothing_is_left_out() -> None:
    """Options, keys within keys, tables of a cluster, exit codes."""
    text = "\n".join(reference.page())
    for part in (
        "`-o, --output FILE`",
        "### phantora cluster",
        "`nic.bandwidth`",
        "`fabric.oversubscription`",
        "`iterations.per_iteration_ns`",
        "`runs[].speed_up`",
        "| 5 | No rank can proceed",
    ):
        assert part in text, part
