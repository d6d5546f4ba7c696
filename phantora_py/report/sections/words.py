"""Words that several sections use."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """As "1 rank", "2 ranks", "3 processes"."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{'' if count == 1 else plural}"
