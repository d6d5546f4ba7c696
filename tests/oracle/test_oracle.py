"""Oracle and system give the same times for random programs, event for event."""

from __future__ import annotations

import pytest
from comparison import check
from host_programs import Program
from hypothesis import HealthCheck, given, settings
from random_programs import DELIVERIES, programs
from system import Delivery

# Programs on which the two once differed.
KEPT = {
    "a split whose colours come at different times": "ranks:2 join:3,0 sleep:1,500000000 "
    "split:0,6,0 sync_device:0,0,0",
    "kernels that share a device and end with a nanosecond": "ranks:1 kernel:0,0,1,1,0 "
    "kernel:0,0,1,1,0 kernel:0,0,1,8,0 function:0,0,0 kernel:0,0,7,8,0 kernel:0,2,10,1,0",
    "operations that end at one time and were not begun in order": "ranks:6 join:3,300 join:39,0 "
    "exchange:3,5,0,30,100 exchange:0,0,1,3000,1",
    "flows of which little is left when their rate changes": "ranks:2 join:3,0 "
    "pair:0,3,10000000000,10000000000,0 sync_device:0,0,0",
}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), DELIVERIES)
def test_oracle_and_system_agree(program: Program, delivery: Delivery) -> None:
    """All spans, operations, answers and digests are the same, however records are delivered."""
    check(program, delivery)


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT.keys())
def test_they_agree_where_they_once_did_not(text: str) -> None:
    """These programs found faults; all of what travels with records is tried."""
    for seed in range(4):
        check(Program.parse(text), Delivery(seed, True, True, True))


@given(programs())
@settings(max_examples=20, deadline=None)
def test_the_text_of_a_program_is_the_program(program: Program) -> None:
    """So a failing program can be replayed from the message."""
    assert Program.parse(str(program)) == program


def test_a_difference_is_shown_with_the_line_that_replays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last line of the failure is a command."""
    monkeypatch.setattr("oracle.Oracle.waits_for", lambda self, call, earlier: False)
    text = "ranks:1 kernel:0,2,10,8,0 kernel:0,2,10,8,0"
    with pytest.raises(AssertionError) as caught:
        check(Program.parse(text), Delivery(7))
    assert "oracle only: Span(rank=0, kind=1" in str(caught.value)
    assert str(caught.value).splitlines()[-1] == f"python tests/oracle/replay.py 7 '{text}'"
