"""The loop of the host agent.

Records go from the rings to the server, answers from the server to the ranks. Beside that the agent
watches the rank processes: the first that fails ends the run, and one that waits outside while the
simulation waits for it is set aside.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

from phantora_py.agent.by_machine import ByMachine
from phantora_py.agent.cells import is_background, only_takes_turns
from phantora_py.agent.channels import Channels
from phantora_py.agent.children import ChildWatch
from phantora_py.agent.datafile import DataSink
from phantora_py.agent.ends import describe_end
from phantora_py.agent.idle import IdleWatch, StillWatch, is_proven_still
from phantora_py.agent.own_ranks import OwnRanks
from phantora_py.agent.parts import Memory, OtherHosts, Outcome, Output, Watcher
from phantora_py.agent.simulation import Simulation, batches
from phantora_py.agent.stall import FIRST_TOLD_S, StallWatch
from phantora_py.agent.states import RankStates
from phantora_py.agent.unasked import Unasked
from phantora_py.launch.interrupts import Interrupts
from phantora_py.launch.ranks import GRACE_S, RankProcesses
from sim_server import simulation_pb2 as wire
from sim_server.errors import (
    Deadlock,
    InternalError,
    Interrupted,
    RankFailed,
    UsageError,
    garbled_rank,
)

# How often clocks of ranks that ring no bell are looked at: rarely, unless the simulation waits for
# one.
POLL_MS = 20
FIRST_STALLED_POLL_MS = 1
# A rank that ends because of an unsupported call is gone before the server has read why (assumed
# enough).
_EXPLANATION_S = 0.5
_STOP_LIMIT_S = 10.0
# A look at a rank's processes reads some hundred files, so it is repeated ever less often.
_FIRST_LOOK_INTERVAL_S = 0.001
_LAST_LOOK_INTERVAL_S = 0.025
_LOOK_AT_ALL_INTERVAL_S = 0.1


class HostAgent:
    """Serves the ranks of this host until all have ended."""

    def __init__(
        self,
        channels: Channels,
        simulation: Simulation,
        processes: RankProcesses | OwnRanks,
        data: DataSink,
        watcher: Watcher,
        *,
        output: Output,
        memory: Memory,
        stall: StallWatch,
        interrupts: Interrupts,
        until_steady: bool = False,
        others: OtherHosts | None = None,
        keeps_data: bool = True,
    ) -> None:
        """`others`: of a run on several hosts. `keeps_data`: this agent gets the run's data."""
        self._others = others
        self._keeps_data = keeps_data
        self.told = ""
        """What the server said why the run cannot go on."""
        self._channels = channels
        self._simulation = simulation
        self._processes = processes
        self._data = data
        self._watcher = watcher
        self._output = output
        self._memory = memory
        self._up: set[int] = set()
        self._ranks = sorted(processes.pids)
        self._states = RankStates(channels)
        self._still = StillWatch(channels)
        self._children = ChildWatch(channels)
        self._idle = IdleWatch()
        self._by_machine = ByMachine(watcher.note, channels.owner_pid)
        self._stall = stall
        self._interrupts = interrupts
        self._until_steady = until_steady
        self._aside: set[int] = set()
        self._held_up_by: set[int] = set()
        self._held_up_elsewhere: set[int] = set()
        self._alarmed: set[int] = set()
        self._helpers_run: set[int] = set()
        self._wakeups = 0
        self._poll_ms = FIRST_STALLED_POLL_MS
        self._outcome = Outcome()
        self._damaged = False
        self._unasked = Unasked()
        self._detail = ""
        self._last_words = ""
        self._stop_at_s: float | None = None
        self._stopped = False
        self._grace_s = GRACE_S
        self._has_all_data = False
        self._look_at_s = 0.0
        self._look_interval_s = _FIRST_LOOK_INTERVAL_S
        self._look_at_all_at_s = 0.0

    def run(self) -> Outcome:
        """Returns when every rank has ended and the server has sent the run's data.

        Raises: InternalError if the server breaks down.
        """
        while self._processes.pids:
            poll_ms = self._poll_ms if self._held_up_by else POLL_MS
            self._forward(min(poll_ms, self._children.due_ms()))
            self._poll_ms = min(2 * self._poll_ms, POLL_MS)
            for note in self._children.answer(self._processes.pids, self._processes.beside):
                self._watcher.note(note)
            for message in self._simulation.take():
                self._handle(message)
            for rank, status in self._processes.take_ended():
                self._on_end(rank, status)
            self._note_refusal()
            self._set_idle_ranks_aside()
            self._show_states()
            self._tell_of_stall()
            self._note_interrupt()
            self._note_damage()
            self._mind_memory()
            self._output.check()
            self._data.check()
            if self._others is not None:
                self._others.check()
            self._stop_if_due()
        for rank, status in self._processes.take_ended():
            self._on_end(rank, status)
        self._note_refusal()
        self._finish()
        outcome = replace(self._outcome, by_machine=self._rows_by_machine())
        if outcome.exit_code != RankFailed.exit_code:
            return outcome
        if outcome.failed_rank is not None and outcome.failed_rank not in self._ranks:
            self._last_words = self._output.last_words(outcome.failed_rank)
        detail = "" if self._detail in outcome.message else f" {self._detail}"
        return replace(outcome, message=f"{outcome.message}{detail} {self._last_words}".rstrip())

    def _forward(self, timeout_ms: int) -> None:
        found = self._channels.poll(timeout_ms)
        if not found:
            return
        records = [
            wire.RankRecords(rank=rank, host_clock_ns=clock_ns, cells=cells)
            for rank, clock_ns, cells in found
        ]
        if len(self._up) < len(self._processes.pids):
            self._up.update(record.rank for record in records)
            self._watcher.ranks_up(len(self._up))
        for record in records:
            self._unasked.sends(record.rank, record.cells)
            self._states.heard(record.rank, record.host_clock_ns)
            if not record.cells or not is_background(record.cells):
                self._still.got_on(record.rank)
            if not is_background(record.cells):
                self._unasked.asks(record.rank)
                self._idle.forget(record.rank)
                self._by_machine.acts(record.rank)
                turns = only_takes_turns(record.cells)
                self._children.heard(record.rank, record.cells)
                self._stall.heard(record.rank, record.host_clock_ns, only_turns=turns)
                self._aside.discard(record.rank)
        for batch in batches(records):
            self._simulation.send(wire.FromAgent(batch=batch))

    def _handle(self, message: wire.ToAgent) -> None:
        match message.WhichOneof("message"):
            case "stalled":
                self._on_stalled(message.stalled)
            case "progress":
                # Virtual time passes, or somebody measures for all of them.
                self._stall.got_on()
                self._unasked.got_on()
                self._watcher.update(message.progress)
                if message.progress.iterations:
                    self._memory.iterates()
                if message.progress.HasField("steady"):
                    self._on_steady(message.progress.steady)
            case "failure":
                self._on_failure(message.failure)
            case "data_chunk":
                self._stall.got_on()
                chunk = message.data_chunk
                self._data.write(chunk.name, chunk.content)
                self._has_all_data = chunk.last
            case other:
                raise InternalError(f"sim_server sent {other!r}, which is not expected here")

    def _on_steady(self, steady: wire.Steady) -> None:
        """The ranks are stopped, which is no failure: the run ends with what is simulated."""
        if self._until_steady and self._outcome.steady is None and self._stop_at_s is None:
            self._outcome = Outcome(
                steady={
                    "iterations": steady.iterations,
                    "time_ns": steady.time_ns,
                    "median_ns": steady.median_ns,
                }
            )
            self._stop_at_s = time.monotonic()

    def _on_stalled(self, stalled: wire.Stalled) -> None:
        self._held_up_by = set(stalled.held_up_by) & set(self._processes.pids)
        self._unasked.told(stalled)
        if self._others is not None:
            self._held_up_elsewhere = set(stalled.held_up_by).difference(self._ranks)
            self._others.await_proof(bool(stalled.held_up_by), stalled.wakeups)
        self._alarmed = set(stalled.alarmed)
        self._helpers_run = set(stalled.helpers_run)
        self._poll_ms = FIRST_STALLED_POLL_MS
        self._aside -= self._held_up_by
        if stalled.wakeups != self._wakeups:
            if self._others is not None:
                self._stall.got_on()  # here or elsewhere
            # Who was idle need not be so any more: a message may be on its way since.
            self._wakeups = stalled.wakeups
            self._idle = IdleWatch()
            self._look_at_s = 0.0
            self._look_interval_s = _FIRST_LOOK_INTERVAL_S
            self._look_at_all_at_s = time.monotonic() + _LOOK_AT_ALL_INTERVAL_S

    def _on_failure(self, failure: wire.Failure) -> None:
        """The server knows why the program cannot go on; that beats what was seen of processes,
        unless it says no more than that a rank has failed.
        """
        self._detail = failure.detail
        self.told = self.told or failure.message
        seen = self._outcome.exit_code
        is_of_rank = failure.exit_code == RankFailed.exit_code
        if seen == 0 and failure.HasField("rank") and failure.rank not in self._ranks:
            self._on_end_elsewhere(failure.rank, failure.status)
        elif seen == 0 or (seen == RankFailed.exit_code and not (is_of_rank or self._damaged)):
            rank = self._outcome.failed_rank
            self._outcome = Outcome(failure.exit_code, failure.message, rank, failure.tables)
        # The rank is about to end, and its end says more than its exit record.
        self._stop_at_s = time.monotonic() + (_EXPLANATION_S if is_of_rank else 0)

    def _on_end_elsewhere(self, rank: int, status: int) -> None:
        """A rank of another host has failed, and was the first."""
        message = self._processes.tell_end(rank, describe_end(status, oom_killed=False))
        self._output.show_only(rank)
        self._outcome = Outcome(RankFailed.exit_code, message, rank)

    def _on_end(self, rank: int, status: int) -> None:
        self._forward(0)
        self._channels.hang_up(rank)
        self._simulation.send(wire.FromAgent(rank_exited=wire.RankExited(rank=rank, status=status)))
        self._held_up_by.discard(rank)
        self._aside.discard(rank)
        self._stall.got_on()
        if self._outcome.steady is not None:
            return
        is_first = self._outcome.exit_code == 0 or (
            self._outcome.exit_code == RankFailed.exit_code
            and self._outcome.failed_rank is None
            and not self._stopped
        )
        if status != 0 and is_first:
            how = describe_end(status, self._memory.oom_killed())
            message = self._processes.tell_end(rank, how)
            self._last_words = self._output.last_words(rank)
            self._output.show_only(rank)
            self._outcome = Outcome(RankFailed.exit_code, message, rank)
            self._stop_at_s = time.monotonic() + _EXPLANATION_S

    def _set_idle_ranks_aside(self) -> None:
        now_s = time.monotonic()
        others = self._others
        if others is not None and others.is_due():
            self._look_at_s, self._look_interval_s = 0.0, _FIRST_LOOK_INTERVAL_S
        if not (self._held_up_by or self._held_up_elsewhere) or now_s < self._look_at_s:
            return
        if others is not None:
            others.look(self._still)
        pids = self._processes.pids
        # Who has asked the simulation meanwhile does not wait for anything else, unless an alarm
        # has set its helpers going.
        candidates = {
            rank: pids[rank]
            for rank in self._held_up_by
            if rank in pids
            and (rank in self._helpers_run or not self._channels.waiting(rank))
            and not self._children.is_asked(rank)
        }
        # Mostly the simulation waits for one that runs, and then for the others after it.
        is_thorough = now_s >= self._look_at_all_at_s
        if not is_thorough and any(map(self._still.runs, candidates.keys(), candidates.values())):
            return
        # One that has yet to start is not waiting for anything.
        started = {rank: pid for rank, pid in candidates.items() if self._channels.owner_pid(rank)}
        if others is None:
            still = self._still.find(started, pids)
        else:
            still = self._still.find(started, pids, others_too=True)
        found = still
        may_guess = is_thorough and self._idle.all_have_run(pids.values())
        may_guess = may_guess and not any(map(self._channels.looking_up, pids))
        if is_thorough and still != candidates.keys():
            idle = self._seem_idle(candidates)
            found = still | (idle if may_guess else set())
        if found != self._held_up_by | self._held_up_elsewhere:
            # Values of tensors take no virtual time: whoever still runs is about to send them. Of
            # several hosts the server knows whether one of their ranks runs.
            decided = found if others is None else found - still
            found = found - {rank for rank in decided if self._channels.awaits_values(rank)}
        alarmed = found & still & self._alarmed
        if alarmed and self._processes.others_go_on():
            found = found - alarmed
            alarmed = set()
        proven = [rank for rank in alarmed if is_proven_still(pids[rank])]
        # Whoever asked to act before it went to sleep must have been heard first.
        self._forward(0)
        aside = [rank for rank in sorted(found) if self._channels.set_aside(rank)]
        self._aside.update(aside)
        self._by_machine.guessed([rank for rank in aside if rank not in still])
        if others is not None:
            seems_quiet = is_thorough and self._idle.host_seems_quiet(self._still.is_quiet)
            self._tell_others(others, aside, still, proven, guess=may_guess and seems_quiet)
        elif aside:
            message = wire.RanksAside(
                ranks=aside,
                wakeups=self._wakeups,
                proven=proven,
                await_values=filter(self._channels.awaits_values, aside),
            )
            self._simulation.send(wire.FromAgent(ranks_aside=message))
            self._held_up_by.difference_update(aside)
        now_s = time.monotonic()
        self._look_at_s = now_s + self._look_interval_s
        self._look_interval_s = min(2 * self._look_interval_s, _LAST_LOOK_INTERVAL_S)
        if is_thorough:
            in_doubt = self._idle.is_in_doubt(candidates)
            self._look_at_all_at_s = now_s + (
                _LAST_LOOK_INTERVAL_S if in_doubt else _LOOK_AT_ALL_INTERVAL_S
            )

    def _tell_others(
        self,
        others: OtherHosts,
        aside: list[int],
        still: set[int],
        proven: list[int],
        guess: bool,
    ) -> None:
        """Who is asleep if nothing is on its way between hosts, which the server finds out; and who
        seems to be. They hold up the simulation until it says that they do not. `guess`: this host
        has not been proven to be quiet for so long that it is taken to be.
        """
        guessed = [rank for rank in aside if rank not in still]
        if guessed:
            message = wire.RanksAside(
                ranks=guessed,
                wakeups=self._wakeups,
                await_values=filter(self._channels.awaits_values, guessed),
            )
            self._simulation.send(wire.FromAgent(ranks_aside=message))
        delivered = others.proof(self._still, guess)
        if delivered is not None:
            asleep = [rank for rank in aside if rank in still]
            self._by_machine.guessed([] if self._still.is_quiet else asleep)
            message = wire.RanksAside(
                ranks=asleep,
                wakeups=self._wakeups,
                proven=proven,
                await_values=filter(self._channels.awaits_values, asleep),
            )
            message.is_quiet, message.delivered = True, delivered
            self._simulation.send(wire.FromAgent(ranks_aside=message))

    def _seem_idle(self, candidates: Mapping[int, int]) -> set[int]:
        """Those that have hardly wanted the processor; for where nothing can be proven."""
        at_work = {rank for rank, pid in candidates.items() if self._still.runs(rank, pid)}
        for rank in at_work:
            self._idle.forget(rank)
        others = candidates.keys() - at_work
        idle = {rank for rank in others if self._idle.is_idle(rank, candidates[rank])}
        return {rank for rank in idle if not self._children.is_asked(rank)}

    def _show_states(self) -> None:
        if self._states.is_due():
            alive = self._processes.pids
            self._watcher.ranks(self._states.take(self._ranks, alive, self._up, self._aside))

    def _tell_of_stall(self) -> None:
        if self._stop_at_s is not None or not self._processes.pids or not self._stall.is_due():
            return
        for rank in self._processes.give_up(self._stall.silence_s()):
            self._on_end(rank, 0)
        message = self._stall_message()
        if self._stall.is_over():
            self._outcome = Outcome(Deadlock.exit_code, f"{message}. That is the --stall-limit.")
            self._stop_at_s = time.monotonic()
        else:
            self._watcher.note(message)

    def _stall_message(self) -> str:
        beside = self._processes.beside
        return self._stall.tell(
            *(self._processes.pids, self._held_up_by, self._aside),
            lambda rank: self._children.beside_of(rank, beside),
        )

    def _note_interrupt(self) -> None:
        number = self._interrupts.number
        if number is not None and self._stop_at_s is None:
            what = "every rank was stopped; the data file ends there."
            if self._processes.pids and self._stall.silence_s() >= FIRST_TOLD_S:
                what += f" Before, {self._stall_message()}."
            end = Interrupted(what, number)
            self._outcome = Outcome(end.exit_code, str(end))
            self._stop_at_s = time.monotonic()

    def _note_damage(self) -> None:
        """A rank that writes where it should not is believed no more: all are stopped at once."""
        if self._damaged or (damage := self._channels.damage() or self._find_unasked()) is None:
            return
        self._damaged = True
        rank, what = damage
        who = "One of the ranks" if rank is None else f"Rank {rank}"
        if self._outcome.exit_code == 0:
            error = garbled_rank(who, what)
            self._outcome = Outcome(error.exit_code, str(error), rank)
        self._stop_at_s = time.monotonic()

    def _find_unasked(self) -> tuple[int, str] | None:
        pids = self._processes.pids
        held_up_by = self._held_up_by - self._helpers_run - self._aside
        waiting = (rank for rank in held_up_by if rank in pids and self._channels.waiting(rank))
        for rank in self._unasked.find(waiting):
            if not self._still.runs(rank, pids[rank]):
                return rank, "waits for the answer to a question that it has not asked"
        return None

    def _note_refusal(self) -> None:
        """The program may wait for the refused process for ever, or go on without it."""
        refusal = self._processes.refusal()
        is_first = self._outcome.exit_code in {0, RankFailed.exit_code}
        if refusal and is_first and self._outcome.steady is None:
            self._outcome = Outcome(UsageError.exit_code, refusal)
            self._stop_at_s = time.monotonic()

    def _mind_memory(self) -> None:
        warning = self._memory.take_warning()
        if warning:
            self._watcher.note(warning)
        if self._others is not None:
            self._others.tell_memory(self._memory.total_bytes)
        if self._memory.over and self._stop_at_s is None:
            self._outcome = Outcome(UsageError.exit_code, self._memory.over)
            self._stop_at_s = time.monotonic()
            self._grace_s = 0.0  # in which they would take more

    def _stop_if_due(self) -> None:
        if self._simulation.ended and self._outcome.exit_code == 0:
            self._simulation.check_orderly_end()
            raise InternalError("sim_server closed the connection while ranks were running")
        now_s = time.monotonic()
        if self._stop_at_s is None or now_s < self._stop_at_s:
            return
        if not self._stopped:
            self._stopped = True
            self._processes.stop(self._grace_s)
        elif now_s > self._stop_at_s + _STOP_LIMIT_S:
            raise InternalError(f"Ranks {sorted(self._processes.pids)} do not end when killed")

    def _rows_by_machine(self) -> list[dict[str, float]]:
        counts = {rank: self._channels.ran_out(rank) for rank in self._ranks}
        ran_out = {rank: count for rank, count in counts.items() if count}
        return self._by_machine.rows(self._children.slept_s, ran_out)

    def _finish(self) -> None:
        self._forward(0)
        if self._others is not None:
            self._others.close(self._memory.to_dict(), self._rows_by_machine())
        self._simulation.send(wire.FromAgent(finish=wire.Finish()))
        # The server waits for our goodbye, and we for the end of its data.
        while not self._has_all_data and (message := self._simulation.next_message()) is not None:
            self._handle(message)
        if self._outcome.exit_code == 0 and self._keeps_data and not self._has_all_data:
            self._simulation.check_orderly_end()
            raise InternalError("sim_server ended before it had sent all of the run's data")
        if self._others is not None:
            self._others.check_kept()
