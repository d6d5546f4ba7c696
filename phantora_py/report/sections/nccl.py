"""Variables of NCCL that could change times and are not modelled (docs/network.md)."""

from __future__ import annotations

from rich.markup import escape

from phantora_py.report.findings import Findings
from sim_server.collectives.environment import not_modelled


def make(found: Findings) -> list[str]:
    """As NAME=VALUE."""
    return not_modelled(found.data.settings["nccl_environment"])


def lines(variables: list[str]) -> list[str]:
    """On a terminal."""
    return [f"  NCCL       not modelled: {escape('   '.join(variables))}"] if variables else []
