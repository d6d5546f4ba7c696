"""Recordings of ranks that act and wait outside, simulated again without them."""

from __future__ import annotations

from typing import Any

from played_ranks import PlayedRanks, Script, make_settings, whole_files
from recorded_runs import again, check_same, slow_gpu

from sim_server.log.run_log import ANSWER
from sim_server.records import WaitFlags, WaitKind
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.sources.recorded import Approximations


class OutsideRanks(PlayedRanks):
    """Ranks of which some wait outside, and the agent that sets them aside.

    A rank waits before a Resume, and where a helper would use a slot that is not answered yet.
    """

    def __init__(
        self, scripts: list[Script], settings: Settings, come_back: dict[int, int]
    ) -> None:
        """`come_back`: with which act of the run a rank that waits outside comes back."""
        super().__init__(scripts)
        self.simulation = Simulation(settings)
        self.come_back = come_back
        self.acts = 0
        self.open: dict[tuple[int, int], int] = {}  # kinds of the waits of a rank and slot

    def run(self) -> dict[str, Any]:
        """Its files."""
        ranks = range(len(self.gone))
        while not all(self.gone):
            for rank in ranks:
                if not self.waiting[rank]:
                    self.step(rank)
            for reply in self.simulation.advance():
                self.acts += self.open.pop((reply.rank, reply.slot)) == WaitKind.OUTSIDE
                if reply.slot == 0:
                    self.answer(reply.rank, reply.time_ns)
        return whole_files(self.simulation.files()) | {"error": "None"}

    def step(self, rank: int) -> None:
        """One record, or nothing."""
        wait = self.next_wait(rank)
        if wait is not None:
            kind, slot = wait
            waits = kind == WaitKind.RESUME and self.acts < self.come_back.get(rank, 0)
            if waits or (rank, slot) in self.open:
                self.simulation.set_aside(rank, self.simulation.wakeups)
                return
            self.open[rank, slot] = kind
        self.simulation.feed(rank, self.take(rank, 1), self.clocks_ns[rank])
        if self.leaves(rank):
            self.simulation.exited(rank, 0)


def helper_acts(script: Script, gap: int = 0) -> None:
    """A helper thread sends a message, always in the same slot."""
    script.wait(WaitKind.OUTSIDE, slot=1, gap=gap, flags=int(WaitFlags.BACKGROUND))


def acts(script: Script, gap: int = 0) -> None:
    """The rank itself does, which takes a microsecond."""
    script.wait(WaitKind.OUTSIDE, gap=gap)
    script.gemm(gap=1000)


def late_start(settings: Settings) -> dict[str, Any]:
    """Rank 1 waits for rank 2, which computes and then sends; rank 0 for rank 1, which answers at
    the same time.
    """
    sender = Script().gemm(k=1 << 14).synchronise(gap=30)
    acts(sender)
    sender.synchronise()
    answers = Script().gemm(gap=10).resume()
    acts(answers)
    answers.synchronise()
    last = Script().gemm(gap=20).resume().gemm(gap=70).synchronise()
    return OutsideRanks([last, answers, sender], settings, {1: 1, 0: 2}).run()


def told(files: dict[str, Any], rank: int, kind: WaitKind) -> list[tuple[int, int]]:
    """When a rank asked and was answered."""
    answers = ANSWER.iter_unpack(files[f"answers/rank-{rank}"])
    return [(asked, time) for waited, _, _, asked, time in answers if waited == kind]


def test_outside_waits_end_when_they_did() -> None:
    """When a rank came back from outside is not in its records: the answers know."""
    files = late_start(make_settings(3))
    assert told(files, 1, WaitKind.OUTSIDE) == told(files, 2, WaitKind.OUTSIDE)
    ((acted_ns, _),) = told(files, 2, WaitKind.OUTSIDE)
    assert [told(files, rank, WaitKind.RESUME) for rank in (1, 0)] == [
        [(10, acted_ns)],
        [(20, acted_ns)],
    ]
    check_same(files)


def test_under_other_settings_acts_end_the_waits_that_they_ended() -> None:
    """A rank comes back with the act that woke it, at that act's new time."""
    slow = slow_gpu(make_settings(3))
    expected = late_start(slow)
    files = late_start(make_settings(3))
    assert expected["digest"] != files["digest"]
    for recording, settings in ((files, slow), (expected, make_settings(3)), (files, None)):
        found, approximations = again(recording, settings)
        assert found["digest"] == (expected if settings is slow else files)["digest"]
        assert approximations == Approximations()


def test_a_rank_that_is_late_under_other_settings_does_not_wait() -> None:
    """What it waits for has happened when it gets there."""

    def recorded(settings: Settings) -> dict[str, Any]:
        sender = Script().gemm(gap=900_000)
        acts(sender)
        waits = Script().gemm(k=1 << 14).synchronise().resume().gemm().synchronise()
        return OutsideRanks([sender, waits], settings, {1: 1}).run()

    slow = slow_gpu(make_settings(2))
    files, expected = recorded(make_settings(2)), recorded(slow)
    ((asked_ns, resumed_ns),) = told(files, 1, WaitKind.RESUME)
    assert asked_ns < resumed_ns
    found, _ = again(files, slow)
    assert found["digest"] == expected["digest"]


def test_what_helpers_do_outside_holds_nobody_up() -> None:
    """A helper's messages at one time in one slot, while its rank is aside behind work that it has
    just issued: what its rank does next cannot come before, and the recording knows when it did.
    """
    waits = Script()
    waits.gemm(gap=500)
    for _ in range(20):
        helper_acts(waits)
    waits.resume().gemm(gap=5).synchronise()
    helper_acts(waits, gap=40)
    helper_acts(waits, gap=2)
    waits.gemm(gap=3).synchronise()
    other = Script().gemm(k=1 << 13).synchronise(gap=7)
    acts(other)
    other.synchronise()
    files = OutsideRanks([waits, other], make_settings(2), {0: 21}).run()
    check_same(files)
    for piece_cells in (1, 2, 3, 1000):
        assert again(files, piece_cells=piece_cells)[0]["digest"] == files["digest"]


def test_an_outside_wait_that_no_act_ended_lasts_as_long() -> None:
    """A helper's message, or the end of a process; how often that was assumed is told. It stays a
    wait, not work of the host, also of one that is simulated once more.
    """
    sender = Script().gemm(k=1 << 14).synchronise()
    helper_acts(sender, gap=10)
    sender.gemm(gap=10).synchronise()
    waits = Script().gemm().resume().gemm(gap=70).synchronise()
    files = OutsideRanks([sender, waits], make_settings(2), {1: 1}).run()
    ((asked_ns, resumed_ns),) = told(files, 1, WaitKind.RESUME)
    assert asked_ns < resumed_ns
    check_same(files)
    found, approximations = again(files, slow_gpu(make_settings(2)))
    assert approximations == Approximations(outside_waits=1)
    for one in (found, again(files)[0], again(again(files)[0])[0]):
        assert told(one, 1, WaitKind.RESUME) == [(asked_ns, resumed_ns)]


def test_when_values_were_sent_is_of_one_run() -> None:
    """Under other settings the rank comes back with the act that woke it, also if it is earlier."""

    def recorded(settings: Settings, values_ns: int = 0) -> dict[str, Any]:
        sender = Script().gemm(k=1 << 14).synchronise(gap=30)
        acts(sender)
        waits = Script().gemm(gap=10)
        waits.wait(WaitKind.RESUME, values_ns=values_ns)
        played = [sender.synchronise(), waits.gemm(gap=70).synchronise()]
        return OutsideRanks(played, settings, {1: 1}).run()

    slow = slow_gpu(make_settings(2))
    ((acted_ns, _),) = told(recorded(slow), 0, WaitKind.OUTSIDE)
    files, expected = recorded(slow, acted_ns), recorded(make_settings(2))
    assert files["digest"] == recorded(slow)["digest"] != expected["digest"]
    assert again(files, make_settings(2))[0]["digest"] == expected["digest"]
