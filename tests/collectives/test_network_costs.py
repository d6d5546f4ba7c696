"""What the fitted costs of networks must keep to."""

from __future__ import annotations

import pytest

from sim_server.cluster import Calibration
from sim_server.collectives.tuning import Algorithm, Protocol, cost_names, load_tuning


@pytest.mark.parametrize("network", sorted({*cost_names("networks")} - {"ideal"}))
@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.TREE])
def test_half_of_a_line_of_ll_is_flags(network: str, algorithm: Algorithm) -> None:
    """So LL carries at most half of what Simple does, on any network."""
    tuning = load_tuning("ampere", network, Calibration())
    low, simple = (tuning[algorithm, one].between for one in (Protocol.LL, Protocol.SIMPLE))
    assert low is not None
    assert simple is not None
    assert low.efficiency <= simple.efficiency / 2
