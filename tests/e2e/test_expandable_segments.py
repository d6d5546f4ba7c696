"""PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the allocator maps memory piece by piece."""

from __future__ import annotations

import json
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

VALUES = [[0, 1, 2], [0, 1, 2, 3, 4], [3, 8], [0, 1, 2, 3, 4]]


def run(phantora: Phantora, setting: str) -> dict[str, Any]:
    done = phantora.run(
        ["--ranks", "2"],
        [PROGRAMS / "expandable.py"],
        {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{setting}"},
    )
    assert done.exit_code == 0, done.errors
    assert done.summary["trust"]["calls"]["unsupported"] == 0
    found: dict[str, Any] = json.loads(done.output)
    return found


def test_tensors_across_mappings(phantora: Phantora) -> None:
    """A program does with expandable segments what it does without, values and amounts alike."""
    with_flag, without = run(phantora, "True"), run(phantora, "False")
    assert (with_flag.pop("expandable"), without.pop("expandable")) == (True, False)
    assert with_flag["values"] == without["values"] == VALUES * 2
    # PyTorch maps 20 MiB at a time for large tensors; without the flag it splits not all blocks.
    for kind in ("peak_allocated_mib", "peak_reserved_mib", "reserved_mib"):
        assert with_flag[kind] == pytest.approx(without[kind], abs=60)
