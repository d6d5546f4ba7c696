"""What a server is told comes from files of runs, too: figures that no model takes are refused."""

import json
from typing import Any

import pytest

from sim_server.cluster import load_cluster
from sim_server.files.schema import Fault
from sim_server.gpu import load_gpu, profile_names
from sim_server.settings import Settings


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_is_taken(name: str) -> None:
    """A run's file holds the whole profile, which is as it was when it is read again."""
    settings = Settings(1, 1, 1, load_cluster("h100"), load_gpu(name))
    assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("copies", "device_latency_ns", -1),
        ("copies", "peer_bytes_per_s", 0),
        ("memory", "efficiency", 0),
        ("clocks", "sm_khz", 1e300),
        ("gemm", "tile_ns", "3"),
    ],
)
def test_figures_out_of_range(table: str, name: str, value: Any) -> None:
    """The figure is named, in the GPU of the first node and in others."""
    settings = Settings(1, 1, 1, load_cluster("h100"), load_gpu("h100"))
    values = json.loads(settings.to_json())
    good = json.loads(settings.to_json())["gpu"]
    values["gpu"][table][name] = value
    with pytest.raises(Fault, match=name):
        Settings.from_json(json.dumps(values))
    values = {**values, "gpu": good, "other_gpus": {"own": values["gpu"]}}
    with pytest.raises(Fault, match=name):
        Settings.from_json(json.dumps(values))
