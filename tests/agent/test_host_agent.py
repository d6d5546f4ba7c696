"""The agent's loop, with ranks, channels and a server that a test plays."""

import itertools
import signal
from pathlib import Path

import pytest
from played_run import WORK, Channels, Memory, Processes, serve

from phantora_py.agent import agent as agent_module
from phantora_py.agent.idle import IdleWatch, StillWatch
from phantora_py.agent.parts import Outcome
from phantora_py.agent.stall import StallWatch
from phantora_py.agent.states import Doing, RankState
from phantora_py.launch.interrupts import Interrupts
from sim_server import simulation_pb2 as wire


def test_records_go_to_the_server() -> None:
    """With the clock that was read before them."""
    outcome, _, server, _, _ = serve({0: (3, 0)}, polls=[[(0, 5, WORK)]])
    assert outcome == Outcome()
    assert server.sent[0].batch.ranks[0] == wire.RankRecords(rank=0, host_clock_ns=5, cells=WORK)
    assert server.kinds() == ["batch", "rank_exited", "finish"]


def test_a_rank_s_last_records_precede_its_end() -> None:
    """The server must know everything a rank did before it hears that it ended."""
    polls = [[], [(0, 9, WORK)]]
    _, _, server, _, _ = serve({0: (1, 0)}, polls=polls)
    assert server.kinds() == ["batch", "rank_exited", "finish"]


def test_the_first_failing_rank_is_named_and_the_others_are_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One message, about the rank that failed first; those that were stopped are not failures."""
    monkeypatch.setattr(agent_module, "_EXPLANATION_S", 0.0)
    outcome, _, server, processes, _ = serve({0: (10**9, 0), 1: (2, 3), 2: (10**9, 0)})
    assert processes.stopped
    assert (outcome.exit_code, outcome.failed_rank) == (4, 1)
    assert outcome.message == (
        "Rank 1 ended with exit code 3. It was the first to fail; the others were stopped. I "
        "am 1 and fail"
    )
    assert server.kinds() == ["rank_exited"] * 3 + ["finish"]


def test_the_server_s_explanation_beats_an_exit_code() -> None:
    """A rank that ends because of an unsupported call is reported as that, not as exit code 1."""

    def react(message: wire.FromAgent) -> list[wire.ToAgent]:
        if message.HasField("rank_exited"):
            return [wire.ToAgent(failure=wire.Failure(exit_code=3, message="unsupported"))]
        return []

    outcome, *_ = serve({0: (1, 1), 1: (10**9, 0)}, react)
    assert outcome == Outcome(3, "unsupported", 0)


def test_a_failed_rank_beats_what_its_failure_did_to_the_others() -> None:
    """The server finds that nobody can go on; the user needs to know which rank failed and how."""

    def react(message: wire.FromAgent) -> list[wire.ToAgent]:
        if message.HasField("rank_exited"):
            return [wire.ToAgent(failure=wire.Failure(exit_code=4, message="others wait"))]
        return []

    outcome, *_ = serve({0: (1, 7), 1: (10**9, 0)}, react)
    assert outcome.message.startswith("Rank 0 ended with exit code 7.")
    assert (outcome.exit_code, outcome.failed_rank) == (4, 0)


def test_a_rank_s_end_says_more_than_its_exit_record() -> None:
    """The server may hear of a failure before the process has ended; then its end still counts."""
    failure = wire.ToAgent(failure=wire.Failure(exit_code=4, message="Rank 0 ended"))
    outcome, *_ = serve(
        {0: (3, 7), 1: (10**9, 0)},
        lambda message: [failure] if message.HasField("batch") else [],
        [[(0, 5, WORK)]],
    )
    assert outcome.message.startswith("Rank 0 ended with exit code 7. It was the first to fail;")
    assert outcome.failed_rank == 0


def test_a_deadlock_stops_all_ranks() -> None:
    """When the server says that nothing can proceed, its message stands."""
    failure = wire.ToAgent(failure=wire.Failure(exit_code=5, message="ranks disagree"))
    outcome, _, _, processes, _ = serve(
        {0: (10**9, 0), 1: (10**9, 0)},
        lambda message: [failure] if message.HasField("batch") else [],
        [[(0, 5, WORK)]],
    )
    assert processes.stopped
    assert outcome == Outcome(5, "ranks disagree", None)


STALLED = wire.ToAgent(stalled=wire.Stalled(held_up_by=[1], taken=[0], wakeups=7, alarmed=[1]))


@pytest.mark.parametrize("proven", [True, False])
def test_an_idle_rank_that_holds_others_up_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, proven: bool
) -> None:
    """Only ranks that the server waits for are looked at; the server is told, guesses count."""
    monkeypatch.setattr(
        StillWatch, "find", lambda _, candidates, __: set(candidates) if proven else set()
    )
    monkeypatch.setattr(agent_module, "_LOOK_AT_ALL_INTERVAL_S", 0.0)
    monkeypatch.setattr(StillWatch, "runs", lambda *_: False)
    monkeypatch.setattr(IdleWatch, "is_idle", lambda *_: not proven)
    monkeypatch.setattr(IdleWatch, "all_have_run", lambda *_: True)
    monkeypatch.setattr(agent_module, "is_proven_still", lambda _: True)
    outcome, channels, server, _, told = serve(
        {0: (5, 0), 1: (5, 0)},
        lambda message: [STALLED] if message.HasField("batch") else [],
        [[(0, 5, WORK)]],
    )
    assert [one["guesses"] for one in outcome.by_machine] == ([] if proven else [1])
    assert any("is taken to" in note for note in told.notes) != proven
    assert (channels.aside, channels.ended) == ([1], [0, 1])
    aside = wire.RanksAside(ranks=[1], wakeups=7, proven=[1] if proven else [])
    assert wire.FromAgent(ranks_aside=aside) in server.sent


@pytest.mark.parametrize(("held_up_by", "aside"), [([0, 1], []), ([1], [1])])
def test_a_rank_that_awaits_values_is_set_aside_only_if_nobody_can_send_them(
    monkeypatch: pytest.MonkeyPatch, held_up_by: list[int], aside: list[int]
) -> None:
    """It comes back at the time of whoever sends, and values take no virtual time."""
    monkeypatch.setattr(StillWatch, "find", lambda *_: {1})
    monkeypatch.setattr(StillWatch, "runs", lambda *_: False)
    monkeypatch.setattr(IdleWatch, "is_idle", lambda *_: False)
    monkeypatch.setattr(Channels, "awaits_values", lambda _, rank: rank == 1)
    monkeypatch.setattr(agent_module, "is_proven_still", lambda _: True)
    taken = [0] * len(held_up_by)
    stalled = wire.ToAgent(stalled=wire.Stalled(held_up_by=held_up_by, taken=taken, wakeups=7))
    _, channels, server, _, _ = serve(
        {0: (5, 0), 1: (5, 0)},
        lambda message: [stalled] if message.HasField("batch") else [],
        [[(0, 5, WORK)]],
    )
    assert aside == channels.aside == [r for m in server.sent for r in m.ranks_aside.await_values]


@pytest.mark.parametrize(("ways", "others"), [({1: (1, 1, False)}, False), ({}, True), ({}, False)])
def test_a_rank_that_lets_processes_work_is_not_set_aside(
    monkeypatch: pytest.MonkeyPatch, ways: dict[int, tuple[int, int, bool]], others: bool
) -> None:
    """Its children, or, for its time-out, those that are no ranks: virtual time waits for them."""
    monkeypatch.setattr(Processes, "others_go_on", lambda _: others)
    monkeypatch.setattr(StillWatch, "find", lambda _, candidates, __: set(candidates))
    monkeypatch.setattr(StillWatch, "runs", lambda *_: False)
    monkeypatch.setattr(agent_module, "is_proven_still", lambda _: True)
    monkeypatch.setattr(Channels, "gives_way", lambda _, rank: ways.get(rank, (0, 0, False)))
    _, channels, _, _, _ = serve(
        {0: (5, 0), 1: (5, 0)},
        lambda message: [STALLED] if message.HasField("batch") else [],
        [[(0, 5, WORK)]],
    )
    assert channels.aside == ([] if ways or others else [1])


def test_a_rank_that_starts_is_not_taken_for_one_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of it may sleep for an instant. Time would go on, and it would start late."""
    monkeypatch.setattr(StillWatch, "find", lambda _, candidates, __: set(candidates))
    monkeypatch.setattr(StillWatch, "runs", lambda *_: False)
    monkeypatch.setattr(IdleWatch, "is_idle", lambda *_: False)
    monkeypatch.setattr(Channels, "owner_pid", lambda *_: 0)
    _, channels, _, _, _ = serve(
        {0: (5, 0), 1: (5, 0)},
        lambda message: [STALLED] if message.HasField("batch") else [],
        [[(0, 5, WORK)]],
    )
    assert channels.aside == []


def test_progress_and_data_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of the data file come while the run goes on, and after Finish until the last. While
    the simulator sends such things ranks may wait for it, which is no stall.
    """
    signs: list[int] = []
    monkeypatch.setattr(StallWatch, "got_on", lambda _: signs.append(1))
    piece = wire.DataChunk(name="spans/000000.npy", content=b"2")
    chunk = wire.DataChunk(name="digest", content=b"01", last=True)

    def react(message: wire.FromAgent) -> list[wire.ToAgent]:
        if message.HasField("batch"):
            progress = wire.Progress(iterations=2)
            return [wire.ToAgent(progress=progress), wire.ToAgent(data_chunk=piece)]
        return [wire.ToAgent(data_chunk=chunk)] if message.HasField("finish") else []

    _, _, _, _, watcher = serve({0: (3, 0)}, react, [[(0, 5, WORK)]])
    assert watcher.iterations == [2]
    assert watcher.files == [("spans/000000.npy", b"2"), ("digest", b"01")]
    assert len(signs) == 5  # what the rank did, its end, and these three


def test_a_stall_is_told_and_ends_the_run_only_at_the_limit() -> None:
    """Silence alone proves nothing; the user may set a limit, upon which all ranks are stopped."""
    now_s = iter(range(0, 10**6, 4))
    stall = StallWatch(Path("nowhere"), 60, lambda: next(now_s))
    stalled = wire.ToAgent(stalled=wire.Stalled(held_up_by=[1], taken=[0]))
    outcome, _, _, processes, watcher = serve(
        {0: (10**9, 0), 1: (10**9, 0)},
        lambda message: [stalled] if message.HasField("batch") else [],
        [[(0, 5, WORK)]],
        stall,
    )
    assert processes.stopped
    assert outcome.exit_code == 5
    assert outcome.message.endswith("That is the --stall-limit.")
    assert len(watcher.notes) > 1
    for message in (*watcher.notes[1:], outcome.message):
        assert message.startswith("there was no GPU call for ")
        assert "rank 1 is running without a GPU call, before its first line of Python" in message
        assert "; waiting for that: 0" in message


def test_an_interrupt_stops_the_ranks_and_keeps_the_data() -> None:
    """Exit code 130; the ends of the ranks are no failures of theirs."""
    interrupts = Interrupts()
    interrupts.number = signal.SIGINT
    outcome, _, server, processes, watcher = serve({0: (10**9, 0)}, interrupts=interrupts)
    assert processes.stopped
    assert (outcome.exit_code, outcome.failed_rank) == (130, None)
    assert server.kinds() == ["rank_exited", "finish"]
    assert watcher.files == [("digest", b"01")]


@pytest.mark.parametrize("silence_s", [5, 50])
def test_an_interrupt_says_what_a_run_that_stood_still_waited_for(silence_s: int) -> None:
    """Also if its notes were not shown."""
    interrupts = Interrupts()
    interrupts.number = signal.SIGINT
    now_s = itertools.chain([0], itertools.repeat(silence_s))
    stall = StallWatch(Path("nowhere"), None, lambda: next(now_s))
    outcome, *_ = serve({0: (10**9, 0)}, stall=stall, interrupts=interrupts)
    told = outcome.message.partition("the data file ends there.")[2]
    if silence_s == 50:
        assert told.startswith(" Before, there was no GPU call for 50 s: rank 0 is ")
    else:
        assert not told


def test_a_run_out_of_memory_is_stopped_at_once() -> None:
    """Exit code 2 and the reason; ranks get no time in which they would take more."""
    memory = Memory("this machine has nothing left")
    outcome, _, server, processes, _ = serve({0: (10**9, 0)}, memory=memory)
    assert (outcome.exit_code, outcome.message) == (2, "this machine has nothing left")
    assert (processes.stopped, processes.grace_s) == (True, 0)
    assert server.kinds() == ["rank_exited", "finish"]


def test_the_user_is_told_that_memory_runs_short() -> None:
    """Once."""
    *_, watcher = serve({0: (5, 0)})
    assert watcher.notes == ["it runs short"]


@pytest.mark.parametrize("until_steady", [True, False])
def test_ranks_are_stopped_when_steady(until_steady: bool) -> None:
    """If that was asked for; that they end by a signal is no failure then."""
    steady = wire.Steady(iterations=6, time_ns=900, median_ns=100)

    def react(message: wire.FromAgent) -> list[wire.ToAgent]:
        news = wire.ToAgent(progress=wire.Progress(iterations=7, steady=steady))
        return [news] if message.HasField("batch") else []

    ends = {0: (9, 0), 1: (9, 0)}
    outcome, _, server, processes, watcher = serve(
        ends, react, polls=[[(0, 5, WORK)]], until_steady=until_steady
    )
    assert outcome.exit_code == 0
    assert processes.stopped is until_steady
    expected = {"iterations": 6, "time_ns": 900, "median_ns": 100}
    assert outcome.steady == (expected if until_steady else None)
    assert watcher.iterations == [7]
    assert server.kinds()[-1] == "finish"


def test_states_of_ranks() -> None:
    """Who has made no call yet starts, who has runs; clocks are as last heard."""
    *_, watcher = serve({0: (2, 0), 1: (2, 0)}, polls=[[(0, 5, WORK)]])
    assert watcher.states == [RankState(Doing.RUNNING, 5), RankState(Doing.STARTING, 0)]


def test_a_rank_that_damages_what_it_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, all are stopped at once, and what the server says later changes nothing."""
    monkeypatch.setattr(Channels, "damage", lambda _: (1, "has overwritten its channel"))
    failure = wire.ToAgent(failure=wire.Failure(exit_code=5, message="they disagree"))
    outcome, _, _, processes, _ = serve({0: (50, 0), 1: (50, 0)}, lambda _: [failure])
    assert (outcome.exit_code, outcome.failed_rank) == (4, 1)
    assert outcome.message.startswith("Rank 1 has overwritten its channel. Nothing that it says")
    assert processes.stopped


@pytest.mark.parametrize(("status", "looks"), [(0, 50), (1, 1)])
def test_a_refused_process_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, status: int, looks: int
) -> None:
    """Whether the program goes on without it or fails by it."""
    monkeypatch.setattr(Processes, "refusal", lambda _: "process 7 uses GPU 0")
    outcome, _, _, processes, _ = serve({0: (looks, status), 1: (50, 0)})
    assert (outcome.exit_code, outcome.message) == (2, "process 7 uses GPU 0")
    assert processes.stopped
