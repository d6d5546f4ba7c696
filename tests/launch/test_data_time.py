"""What --data-time takes."""

from __future__ import annotations

import pytest

from phantora_py.launch.data_time import choose_data_time
from phantora_py.launch.layout import RunLayout
from phantora_py.rank.loader_time import LoaderTime
from sim_server.cluster import load_cluster, place
from sim_server.errors import UsageError

CLUSTER = load_cluster("h100")
LAYOUT = RunLayout(place(CLUSTER, None, 2, 4), 4)


def test_a_time() -> None:
    """The ranks of a node share the cluster's processors."""
    assert choose_data_time(None, CLUSTER, LAYOUT) is None
    assert choose_data_time("1.5 ms", CLUSTER, LAYOUT) == LoaderTime(1_500_000, 112, 4)


@pytest.mark.parametrize("told", ["0 ms", "fast", "-1 ms", "12"])
def test_what_is_no_time(told: str) -> None:
    with pytest.raises(UsageError, match=f"--data-time {told}: "):
        choose_data_time(told, CLUSTER, LAYOUT)
