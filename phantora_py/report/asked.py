"""What a report has only if somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phantora_py.report.sections.sensitivity import Sensitivity
    from phantora_py.report.sections.trade import Goal


@dataclass(frozen=True)
class Asked:
    """Nothing, unless told otherwise."""

    sensitivity: Sensitivity | None = None
    goal: Goal | None = None
