"""How the times of the devices' work were found."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from phantora_py.report.findings import Findings
from phantora_py.text.units import percent_text
from sim_server.kernels import Tier
from sim_server.log.history import HOST_WAIT_SPAN, KERNEL_SPAN


class TierShares(TypedDict):
    """Shares of the devices' busy time (docs/kernels.md). Copies and communication are modelled."""

    measured: float
    interpolated: float
    modelled: float
    assumed: float


def make(found: Findings) -> TierShares:
    """The entry of the summary."""
    data = found.data
    spans = data.spans.compress(data.spans["kind"] != HOST_WAIT_SPAN)
    lasted_ns = spans["end_ns"] - spans["start_ns"]
    is_kernel = spans["kind"] == KERNEL_SPAN
    by_timing = np.bincount(
        spans["id"][is_kernel], weights=lasted_ns[is_kernel], minlength=len(data.timings)
    )
    totals = {tier.value: 0.0 for tier in Tier}
    for timing, spent_ns in zip(data.timings, by_timing, strict=True):
        totals[timing["tier"]] += spent_ns
    totals[Tier.MODELLED.value] += float(lasted_ns[~is_kernel].sum())
    whole_ns = sum(totals.values())

    def share(tier: Tier) -> float:
        return float(totals[tier.value] / whole_ns) if whole_ns else 0.0

    return {
        "measured": share(Tier.MEASURED),
        "interpolated": share(Tier.INTERPOLATED),
        "modelled": share(Tier.MODELLED),
        "assumed": share(Tier.ASSUMED),
    }


def lines(shares: TierShares) -> list[str]:
    """On a terminal."""
    tiers = {
        "measured": shares["measured"],
        "interpolated": shares["interpolated"],
        "modelled": shares["modelled"],
        "assumed": shares["assumed"],
    }
    return [
        f"  GPU time   {'   '.join(f'{percent_text(one)} {tier}' for tier, one in tiers.items())}"
    ]
