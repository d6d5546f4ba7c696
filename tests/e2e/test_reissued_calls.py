"""The GPU executor's calls, on a simulated GPU: they come to the library calls that were asked
for. That they are timed well is for a real one.
"""

from __future__ import annotations

import json

import pytest
from phantora_runs import PROGRAMS, Phantora

from phantora_py.profile.needs import signatures_of
from phantora_py.profile.suite import attention, linear
from phantora_py.profile.suite import product as suite_product
from sim_server.timing_cache.entry import signature_key

pytestmark = pytest.mark.torch


def test_calls_come_to_what_was_asked_for(phantora: Phantora) -> None:
    """Every kind that the suite has, batches and sums, down to the byte counts."""
    batch = {**suite_product(64, 96, 32, "NT", "bf16"), "batch": 6}
    batch["strides"] = [64 * 32, 32 * 96, 64 * 96]
    added = {**suite_product(64, 96, 32, "NN", "f32"), "beta": True}
    asked = [
        *linear(256, 128, 384, "bf16"),
        *linear(256, 128, 384, "f32"),
        *attention(2, 4, 512, 64),
        *attention(1, 2, 1024, 128),
        *(batch, added),
    ]
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "reissued_calls.py", json.dumps(asked)])
    assert run.exit_code == 0, run.errors
    issued = {signature_key(one) for one in signatures_of(run.data)}
    assert [one for one in asked if signature_key(one) not in issued] == []
