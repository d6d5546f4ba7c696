"""What a run says of a cache whose measurements are not what its user would expect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phantora_py.launch.gpu import cache_notes
from sim_server.timing_cache import Environment

H100 = Environment("NVIDIA H100 80GB HBM3", "580.1", "13.2", "cublas 13.4, torch 2.15.0")
WANTED = Environment(H100.gpu, "", "13.2", "torch 2.15.0")


@pytest.mark.parametrize(
    ("environments", "words"),
    [
        ({H100}, ""),
        (set(), "has no measurement of NVIDIA H100 80GB HBM3 (it has nothing)"),
        ({replace(H100, gpu="NVIDIA A100")}, "(it has NVIDIA A100): all is modelled"),
        ({replace(H100, cuda="12.8")}, "with CUDA 12.8 alone"),
        ({replace(H100, libraries="torch 2.14.1")}, "with torch 2.14.1 alone"),
        ({H100, replace(H100, cuda="12.8")}, ""),
        ({H100, replace(H100, driver="580.20")}, "drivers 580.1, 580.20; those with 580.20 come"),
    ],
)
def test_what_is_not_as_expected_is_told(environments: set[Environment], words: str) -> None:
    """Another GPU, other versions alone, several drivers; else nothing."""
    notes = cache_notes(environments, WANTED)
    assert bool(notes) == bool(words)
    assert words in " ".join(notes)
