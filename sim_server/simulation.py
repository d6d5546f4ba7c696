"""One run in virtual time: SimPy is the master clock, the device engine an event source beside it.

Owns the order of things. The engine replays what each rank asked of its GPU and says when something
concerns several ranks; collectives are SimPy processes; whichever comes first in virtual time goes
first, and at equal times the engine does. Nothing happens at or after the least clock of a rank
that still runs, because that rank may yet do something there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import simpy

from sim_server._engine import Announcement, Answer, Engine, MalformedInput, Ready
from sim_server.collectives import Communication, Way
from sim_server.collectives.environment import NcclEnvironment
from sim_server.communicators import Meetings
from sim_server.deadlock import report_deadlock
from sim_server.errors import (
    Deadlock,
    Mismatch,
    PhantoraError,
    RankFailed,
    UnsupportedCall,
    unsupported_message,
)
from sim_server.fold.communicators import AbsentPeer, FoldedCommunicators
from sim_server.fold.images import Images
from sim_server.fold.witnesses import Witnesses
from sim_server.gpu import GpuProfile
from sim_server.kernels import Timer, Timing, copy_rates, fill_rate, name_gpu
from sim_server.kernels.flops import Products, products_of
from sim_server.log.history import PIECE_ROWS, Piece
from sim_server.log.run_log import Reply, RunLog
from sim_server.log.steady import Steady, steady_watch
from sim_server.records import (
    NcclOpKind,
    RecordKind,
    announced,
)
from sim_server.records.communicators import Communicators
from sim_server.records.operations import Operation
from sim_server.settings import Settings
from sim_server.timings import make_timer

# Later than the engine's latest time (kLatest in csrc/protocol/nanoseconds.h).
_AFTER_ALL_NS = 1 << 62
# As much as the engine takes for one rank (kMostWork there).
_MOST_KERNEL_NS = 1 << 53
_AGREE = (
    "On hardware this hangs or gives wrong results; every rank of a communicator must issue the "
    "same operations in the same order."
)


def _nccl_sm_count(settings: Settings, gpu: GpuProfile) -> int:
    """Multiprocessors that a launch of NCCL occupies: one for each channel.

    Source: src/enqueue.cc of NCCL 2.20.3, one block a channel. That blocks do not share a
    multiprocessor with other kernels is assumed.
    """
    if not settings.cluster.sm_contention:
        return 0
    variables = NcclEnvironment.read(settings.nccl_environment)
    return variables.channels(gpu.nccl_sm_count)


class Simulation:
    """Feeds records to the engine and advances virtual time as far as the ranks allow."""

    def __init__(
        self,
        settings: Settings,
        timer: Timer | None = None,
        until_steady: bool = False,
        passed: Callable[[], None] = lambda: None,
        *,
        iterations: int | None = None,
    ) -> None:
        """`timer` tells how long kernels take; the cache and the models, unless given.

        `until_steady`: the run ends when the iteration time has settled, see `steady`; or, if they
        are given, after `iterations`. `passed` is called when time has passed within `advance`.
        """
        self.settings = settings
        self.log = RunLog(settings, is_held=until_steady)
        self._until_steady = until_steady
        self._passed = passed
        self._steady_watch = steady_watch(settings, until_steady, iterations)
        self._environment = simpy.Environment(initial_time=0)
        gpu = settings.gpu
        self._engine = Engine(
            settings.ranks,
            gpu.sm_count,
            _nccl_sm_count(settings, gpu),
            copy_rates(gpu),
            fill_rate(gpu),
            None if settings.fold is None else settings.fold.live,
        )
        self._other_gpus = {
            rank: settings.gpu_of(rank).profile
            for rank in (settings.live_ranks if settings.other_gpus else ())
            if settings.gpu_of(rank) is not gpu
        }
        """Profiles of ranks that have not the first node's GPU."""
        for rank, profile in self._other_gpus.items():
            other = settings.other_gpus[profile]
            self._engine.set_gpu(
                rank,
                other.sm_count,
                _nccl_sm_count(settings, other),
                copy_rates(other),
                fill_rate(other),
            )
        self._timer = timer or make_timer(settings)
        fold = settings.fold
        self._communicators = Communicators() if fold is None else FoldedCommunicators(fold)
        self._communication = Communication(
            self._environment,
            settings.cluster,
            settings.nodes,
            settings.gpus_per_node,
            settings.nccl_environment,
            nccl_version=settings.nccl_version,
        )
        self._images = Images(self._environment, self._communication)
        self._witnesses = None if fold is None else Witnesses(fold)
        self._replies: list[Reply] = []
        self._meetings = Meetings(
            self._communicators,
            self._communication,
            self._engine,
            self.log,
            numbers=settings.gpu_numbers,
            send=self._replies.append,
        )
        self._starting: dict[tuple[int, tuple[int, ...]], list[Ready]] = {}  # before that time
        self._ended: list[tuple[Ready, Operation, Way | None, list[int]]] = []
        """Operations that ended at this instant, before the engine is told."""

    def feed(self, rank: int, cells: bytes, host_clock_ns: int) -> None:
        """Take what the agent found in a rank's ring.

        Raises: UnsupportedCall if the rank ended itself at a call that is not modelled;
        MalformedInput if the rank says what cannot be.
        """
        if not 0 <= host_clock_ns < _AFTER_ALL_NS:
            raise MalformedInput(f"rank {rank}: its host clock is out of range")
        self.log.add_records(rank, cells)
        for announcement in self._engine.feed(rank, cells, host_clock_ns):
            self._hear(announcement)
        if self._witnesses is not None:
            self._witnesses.feed(rank, cells)

    def set_aside(
        self, rank: int, wakeups: int, *, proven: bool = False, awaits_values: bool = False
    ) -> bool:
        """The agent found that a rank waits outside: it constrains nobody until it resumes, or
        until somebody acts outside or, if it is `proven` that none of its threads will go on by
        itself, one of its time-outs ends, or if it `awaits_values`, ranks send each other some.

        False if something that may wake it has happened since: then it need not be so any more.
        """
        may_be = self._engine.is_running(rank) or rank in self._engine.unproven_ranks()
        valid = wakeups == self.wakeups and may_be
        if valid:
            self._engine.set_aside(rank, proven, awaits_values)
        return valid

    def exited(self, rank: int, status: int) -> None:
        """A rank's process has ended."""
        self._engine.exited(rank)
        self.log.add_exit(rank, status)

    def leave(self, rank: int, status: int | None) -> None:
        """A rank's records have come to their end; `status`: how its process ended, if known."""
        if status is None:
            self._engine.exited(rank)
        else:
            self.exited(rank, status)

    def advance(self) -> list[Reply]:
        """Let virtual time pass as far as it can.

        Returns: the answers to ranks that waited.
        Raises: Deadlock if nobody can ever go on, or ranks disagree about a collective; RankFailed
        if nobody can because a rank failed.
        """
        environment = self._environment
        while True:
            next_ns = environment.peek()
            limit_ns = None if next_ns == float("inf") else int(next_ns)
            stop = self._engine.advance(limit_ns, True)
            if stop.mismatch is not None:
                raise Mismatch(f"{stop.mismatch}. {_AGREE}")
            for answer in stop.answers:
                self._reply(answer)
            for request in stop.requests:
                self._meetings.meet(request)
            for key, together in self._together(stop.ready).items():
                self._communicate((together[0].time_ns, key), together)
            if stop.ready or stop.requests:
                continue
            bound_ns = self._engine.bound()
            if limit_ns is None or (bound_ns is not None and limit_ns >= bound_ns):
                break
            while environment.peek() == next_ns:
                environment.step()
            self._finish()
            self._passed()
        self._watch_iterations()
        replies = self._replies.copy()
        self._replies.clear()
        if not replies:
            self._check_progress()
        return replies

    def failure_of(self, rank: int, status: int) -> RankFailed:
        """The error that a rank's end with this status is, with what is known about it."""
        self.log.pass_time(_AFTER_ALL_NS)
        how = f"ended with exit code {status}" if status > 0 else f"was killed by signal {-status}"
        last_site = self._engine.last_site(rank)
        site = self.log.site(rank, last_site) if last_site != 0 else ""
        known = [f"Its last GPU call was at {site}."] if site else []
        known += self.log.troubles(rank, site)
        return RankFailed(f"Rank {rank} {how}.", " ".join(known), rank, status)

    def held_up_by(self) -> list[int]:
        """Running ranks that virtual time waits for, and those whose alarms wait for proof that
        they are still; empty while nobody waits.
        """
        engine = self._engine
        waits = engine.helper_waits() > 0 or engine.waiting_ranks() or self.helpers_run()
        held_up = waits or self.alarmed()
        return engine.running_ranks() + engine.unproven_ranks() if held_up else []

    def alarmed(self) -> list[int]:
        """Ranks with threads that wait until a deadline, or that have come to it."""
        return self._engine.alarmed_ranks()

    def helpers_run(self) -> list[int]:
        """Ranks of which one thread waits for the engine while others may do something."""
        return self._engine.helpers_run_ranks()

    @property
    def steady(self) -> Steady | None:
        """When and how the iteration time settled, if it has."""
        return self._steady_watch.steady

    @property
    def is_over(self) -> bool:
        """The run was to end when its iteration time has settled, and has: no more is kept."""
        return self._until_steady and self.steady is not None

    @property
    def iterations(self) -> int:
        """How many the first rank's host has ended, as far as is known; also for other threads."""
        return self._steady_watch.iterations

    @property
    def wakeups(self) -> int:
        """How often something happened that may set a rank going."""
        return self._engine.wakeups()

    @property
    def virtual_time_ns(self) -> int:
        """Where the simulation stands."""
        return self._engine.time_ns

    def pieces(self) -> Iterator[Piece]:
        """The pieces of the run's data file that are ready, as name and content."""
        due = self.log.due()
        if due or self._engine.span_count >= PIECE_ROWS:
            self._take_spans(self._engine.time_ns)
        yield from self.log.pieces(everything=due)
        link_use = self._communication.link_use
        # Where a run will have ended is not known before it has settled.
        if not self._until_steady and (due or len(link_use) >= PIECE_ROWS):
            yield from link_use.take(int(self._environment.now))

    def files(self) -> Iterator[Piece]:
        """At the end of the run: what is left of its data file, the digest last."""
        end_ns = _AFTER_ALL_NS
        if self.is_over and self.steady:
            end_ns = self.steady.time_ns + 1
        else:
            self._take_spans(end_ns)
        yield from self.log.pieces(everything=True)
        yield from self._communication.link_use.take(end_ns)
        if self._witnesses is not None:
            told = {"witnesses": self._witnesses.to_list(), "images": self._images.to_dict()}
            yield "fold.json", json.dumps(told | self.log.folded()).encode()
        yield from self.log.last_files()

    # Iterations

    def _take_spans(self, before_ns: int) -> None:
        """Take finished work from the engine, and keep what nothing comes before any more."""
        if self.is_over:
            return
        self.log.pass_time(before_ns)
        spans = self._engine.take_spans()
        self.log.scopes.add(self._engine.take_scopes())
        self._steady_watch.see(spans)
        self.log.history.add_spans(spans, before_ns)

    def _watch_iterations(self) -> None:
        """Notice when the iteration time has settled; the run may end with that."""
        watch, engine, now_ns = self._steady_watch, self._engine, self._engine.time_ns
        if not watch.is_due(now_ns, engine.oldest_issue_ns):
            return
        spans = engine.take_spans()
        self.log.scopes.add(engine.take_scopes())
        watch.see(spans)
        steady = watch.judge(now_ns, engine.oldest_issue_ns)
        if steady is None or not self._until_steady:
            self.log.pass_time(now_ns)
            self.log.history.add_spans(spans, now_ns)
        else:
            self.log.history.add_spans(spans, 0)
            self.log.end_at(steady.time_ns)

    # What ranks announce

    def check_whole(self, rank: int) -> None:
        """Raises: MalformedInput if what a live rank was fed last is not all of what it says."""
        self._engine.check_whole(rank)

    def _hear(self, announcement: Announcement) -> None:
        kind = RecordKind(announcement.kind)
        if kind is not RecordKind.SIGNATURE:
            announced.check(announcement)
        if kind is RecordKind.SIGNATURE:
            self._learn_signature(announcement)
        elif kind is RecordKind.UNSUPPORTED and _stops(announcement):
            raise UnsupportedCall(self._unsupported_message(announcement))
        else:
            if kind is RecordKind.STATISTICS and (told := _group(announcement)) is not None:
                self._meetings.hear_group(announcement.rank, told)
                return
            if kind is RecordKind.MARKER:
                self._steady_watch.hear(announcement, self.log.marker_name(announcement))
            self.log.add_announcement(announcement)

    def _learn_signature(self, announcement: Announcement) -> None:
        signature, history = announcement.payload, self.log.history
        if history.timing(signature) is None:
            announced.check(announcement)  # once for all ranks
        if (profile := self._other_gpus.get(announcement.rank)) is not None:
            signature = name_gpu(signature, profile)
        timing = history.timing(signature)
        if timing is None:
            timing = history.add_timing(signature, *self._time(signature, announcement))
        self._engine.set_duration(
            announcement.rank,
            announcement.id,
            timing.duration_ns,
            timing.sm_demand,
            history.timing_index(signature),
        )

    def _time(self, signature: bytes, announcement: Announcement) -> tuple[Timing, Products | None]:
        try:
            told = json.loads(signature)
            timing, products = self._timer.time(told), products_of(told)
        except PhantoraError:
            raise
        except Exception as error:  # models do sums with whatever a signature holds
            text = signature.decode(errors="replace")
            what = f"no time can be told for {text}, {type(error).__name__}: {error}"
            raise announced.malformed(announcement, what) from error
        if timing.duration_ns > _MOST_KERNEL_NS:
            text = signature.decode(errors="replace")
            raise announced.malformed(announcement, f"it would take months: {text}")
        return timing, products

    def _unsupported_message(self, announcement: Announcement) -> str:
        where = self.log.site(announcement.rank, announcement.site)
        return unsupported_message(announcement.rank, json.loads(announcement.payload), where)

    def _reply(self, answer: Answer) -> None:
        reply = Reply(
            answer.rank, answer.slot, answer.status, answer.time_ns, answer.value, answer.payload
        )
        if not answer.background:
            self.log.add_answer(answer.kind, answer.asked_ns, reply)
        self._replies.append(reply)

    # Collectives

    def _together(self, ready: list[Ready]) -> Mapping[tuple[int, ...], list[Ready]]:
        try:
            return self._communicators.together(ready)
        except AbsentPeer as error:
            where = self.log.site(error.ready.rank, error.ready.site)
            raise Mismatch(f"{error} at {where}, {error.advice}") from error

    def _communicate(self, key: tuple[int, tuple[int, ...]], together: list[Ready]) -> None:
        """Start operations when the network comes to the time at which they got ready. `key`: that
        time, and what starts as one.
        """
        if key in self._starting:
            self._starting[key] += together
            return
        self._starting[key] = together
        start = self._environment.timeout(key[0] - int(self._environment.now))
        assert start.callbacks is not None, "an event that has not happened has callbacks"
        start.callbacks.append(lambda _: self._start(self._starting.pop(key)))

    def _start(self, together: list[Ready]) -> None:
        comm = together[0].comm
        operations = [self._operation(ready) for ready in together]
        beside = self._communicators.beside(comm, operations)
        all_of_them = [*operations, *beside]
        images = partial(self._communicators.images, comm, all_of_them)
        ends = self._images.start(all_of_them, images)
        ways = self._communication.ways(all_of_them)
        for ready, operation, way, end in zip(together, operations, ways, ends, strict=False):
            assert end.callbacks is not None, "an operation has not ended when it starts"
            end.callbacks.append(partial(self._note_end, ready, operation, way))
        if self._communicators.exchanges(comm, operations):
            self._images.exchange(all_of_them, len(operations), ends)
        self._images.compare(operations, ends, self._communicators.of_witnesses(comm, operations))

    def _note_end(
        self, ready: Ready, operation: Operation, way: Way | None, end: simpy.Event
    ) -> None:
        assert isinstance(end.value, list), "an operation ends with the times of its participants"
        if way is not None:
            way = way._replace(limited_by=self._communication.limited_by(end))
        self._ended.append((ready, operation, way, end.value))

    def _finish(self) -> None:
        """Tell the engine what has ended at this instant: operations in the order of their getting
        ready, so that it does not matter how the network came to their ends.
        """
        self._ended.sort(key=lambda one: one[0].operation)
        for ready, operation, way, ends_ns in self._ended:
            owners = self._communicators.owners(ready.comm, operation.participants)
            now_ns = int(self._environment.now)
            arrivals_ns = self._arrivals_ns(ready)
            self.log.add_operation(
                now_ns, ready, operation, way, ends_ns, owners=owners, arrivals_ns=arrivals_ns
            )
            self._engine.finish(ready.operation, ends_ns)
        self._ended.clear()

    def _arrivals_ns(self, ready: Ready) -> list[int]:
        """Absent members arrive with those that stand for them."""
        stand_ins = self._communicators.stand_ins(ready.comm)
        if stand_ins is None or ready.source >= 0:
            return ready.arrivals_ns
        return [ready.arrivals_ns[place] for place in stand_ins]

    def _operation(self, ready: Ready) -> Operation:
        return Operation(
            kind=NcclOpKind(ready.kind),
            count=ready.count,
            dtype=ready.dtype,
            members=tuple(self._communicators.members(ready.comm)),
            root=ready.root,
            reduction=ready.reduction,
            source=ready.source,
            destination=ready.destination,
            is_gathered=self._communicators.takes_part_in_gather(ready),
        )

    # Ends

    def _check_progress(self) -> None:
        """Raises when ranks wait and none is left that could end their waiting.

        It is a deadlock unless a rank that failed left the others waiting.
        """
        waiting = self._engine.waiting_ranks()
        if not waiting or self._engine.running_ranks() or self._engine.outside_ranks():
            return
        failed = self.log.failed_ranks()
        if failed:
            rank, status = failed[0]
            raise self.failure_of(rank, status)
        report = report_deadlock(self._engine, self._communicators, self.log.exits, self.log.site)
        raise Deadlock(report.message, [asdict(table) for table in report.tables])


def _group(announcement: Announcement) -> dict[str, Any] | None:
    """Which group a new communicator is of, if that is what was announced."""
    told: dict[str, Any] = json.loads(announcement.payload)
    return told if told["kind"] == "group" else None


def _stops(announcement: Announcement) -> bool:
    """Whether a rank ended at its unsupported call; early recordings have no other."""
    call: dict[str, str] = json.loads(announcement.payload)
    return call.get("answer", "stop") in ("stop", "none")
