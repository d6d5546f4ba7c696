"""A rank that writes over what it shares with phantora ends the run, which names it."""

from __future__ import annotations

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

# Start-up and import of torch take most of it.
QUICK_S = 60.0
CUT = "Rank 1 was killed by signal 7 (SIGBUS)."

CASES = {
    "head": ["Rank 1 has overwritten how many records it has written."],
    "reply slot": ["Rank 1 has overwritten a reply slot: the call that waits in it concerns"],
    "records": ["rank 1, record "],
    "channel cut": ["Rank 1 has a channel that it has cut short", CUT],
    # Whoever touches it first: all ranks share it.
    "switchboard cut": [
        "One of the ranks shares a switchboard that it has cut short",
        "One of the ranks has overwritten the head of the switchboard.",
        CUT,
        "Rank 0 was killed by signal 7 (SIGBUS).",
    ],
    "dies writing": ["Rank 1 was killed by signal 9 (SIGKILL)."],
    "never asked": ["Rank 1 waits for the answer to a question that it has not asked."],
}


@pytest.mark.parametrize("how", CASES)
def test_a_rank_that_writes_where_it_should_not(phantora: Phantora, how: str) -> None:
    """Exit code 4 within seconds, one message, no traceback, nobody left behind."""
    run = phantora.run(["--ranks", "2"], [PROGRAMS / "garbling.py", how])
    assert run.exit_code == 4, run.errors
    assert any(said in run.errors for said in CASES[how]), run.errors
    assert "Traceback" not in run.errors
    assert run.wall_s < QUICK_S
