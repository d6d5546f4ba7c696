"""Whether a rank may still do something: one table, in the engine and in docs/liveness.md."""

from pathlib import Path

from engine_harness import cell, make_engine

from sim_server._engine import liveness_table
from sim_server.records import RecordKind, WaitKind
from sim_server.records.writer import record, wait

PAGE = Path(__file__).parents[2] / "docs" / "liveness.md"
TABLE = liveness_table()


def test_the_page_has_the_engines_table() -> None:
    """Each cell; the columns are the causes."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| from |"))
    rows = [[one.strip() for one in line.strip("|").split("|")] for line in lines[start:]]
    causes = rows[0][1:]
    written = {row[0]: dict(zip(causes, row[1:], strict=True)) for row in rows[2 : 2 + 7]}
    assert set(causes) == set(TABLE)
    for cause, changes in TABLE.items():
        assert {state: row[cause] for state, row in written.items()} == changes


def test_who_is_gone_stays_gone_and_nobody_else_is_lost() -> None:
    """From every other state there is a way back to where the program runs."""
    states = set(TABLE["Asks"])
    assert all(changes["Gone"] == "Gone" for changes in TABLE.values())
    back = {"Running"}
    while more := {
        state
        for changes in TABLE.values()
        for state, after in changes.items()
        if after in back and state not in back
    }:
        back |= more
    assert back == states - {"Gone"}


def test_only_the_agent_sets_a_rank_aside() -> None:
    """No other cause takes a rank out of the simulation that was in it."""
    inside = {"Running", "Waiting", "HelpersRun"}
    for cause, changes in TABLE.items():
        if cause not in ("SetAside", "Exits"):
            assert all(changes[state] in inside for state in inside), cause


def test_a_rank_goes_through_its_states() -> None:
    """It asks, is answered, waits outside, is woken by another, and ends."""
    engine = make_engine(ranks=2)
    assert engine.liveness(0) == "Running"
    engine.feed(0, wait(WaitKind.DEVICE), 10)
    assert engine.liveness(0) == "Waiting"
    engine.feed(1, b"", 20)
    engine.advance(None, True)
    assert engine.liveness(0) == "Running"
    engine.set_aside(0)
    assert engine.liveness(0) == "Outside"
    engine.feed(0, wait(WaitKind.RESUME, host_gap_ns=40), 50)
    assert engine.liveness(0) == "Returning"
    engine.exited(1)
    assert (engine.liveness(0), engine.liveness(1)) == ("Waiting", "Gone")
    engine.advance(None, True)
    assert engine.liveness(0) == "Running"
    engine.feed(0, record(RecordKind.EXIT) + cell(RecordKind.WAIT, id=int(WaitKind.DEVICE)), 60)
    assert engine.liveness(0) == "Gone"


def test_a_thread_waits_outside_beside_one_that_waits() -> None:
    """The rank holds nobody up while both wait, and may do something once the first is woken."""
    engine = make_engine(ranks=2)
    engine.feed(0, wait(WaitKind.COMM_INIT, slot=0), 10)
    engine.feed(0, wait(WaitKind.DEVICE, slot=1), 10)
    engine.feed(1, b"", 20)
    assert engine.advance(None, True).requests
    engine.advance(None, True)
    assert (engine.liveness(0), engine.helpers_run_ranks()) == ("Running", [0])
    engine.set_aside(0)
    assert (engine.liveness(0), engine.helpers_run_ranks()) == ("Waiting", [])
    engine.exited(1)
    assert (engine.liveness(0), engine.helpers_run_ranks()) == ("HelpersRun", [0])
    engine.set_aside(0)
    assert engine.liveness(0) == "Waiting"
