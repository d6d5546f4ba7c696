"""What ranks print is not seen in virtual time."""

from __future__ import annotations

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "talkative.py"
MUCH_BYTES = 2_000_000


def test_output_costs_no_virtual_time(phantora: Phantora) -> None:
    """Megabytes or nothing: one digest; and all of it arrives."""
    digests = set()
    for size_bytes in (0, MUCH_BYTES):
        run = phantora.run(["--ranks", "2"], [PROGRAM, str(size_bytes)])
        assert run.exit_code == 0, run.errors
        kept = run.data.log(1).get("stdout", b"")
        assert kept.count(b"\0") == run.output.count("\0") == 4 * size_bytes
        assert run.output.count("x" * 99 + "\n") == 4 * size_bytes // 100
        digests.add(run.data.run["digest"])
    assert len(digests) == 1
