"""How the page writes numbers and Python lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phantora_py.text.units import duration_text, percent_text, size_text


def site_text(site: str) -> str:
    """A Python line without the folders: the page shows them on hover."""
    path, colon, rest = site.partition(":")
    return path.rpartition("/")[2] + colon + rest


def counted(count: int, noun: str) -> str:
    """A number with its noun, which takes an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def bandwidth_text(bytes_per_s: float) -> str:
    """In GB/s of 10^9 bytes, as nccl-tests prints it."""
    return f"{bytes_per_s / 1e9:.3g} GB/s"


def figure_text(mean: float) -> str:
    """A mean count: whole if it is, else with one digit after the point."""
    return f"{mean:,.0f}" if mean == round(mean) else f"{mean:,.1f}"


FILTERS: dict[str, Callable[..., Any]] = {
    "duration": duration_text,
    "size": size_text,
    "percent": percent_text,
    "site": site_text,
    "counted": counted,
    "figure": figure_text,
    "bandwidth": bandwidth_text,
}
"""For the templates."""
