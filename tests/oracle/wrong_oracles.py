"""Oracles that are wrong on purpose. A suite that does not reject each of them proves nothing.

An oracle that is wrong in a way differs from the system as a system that is wrong in that way
differs from the oracle. Each stands for a mistake that an engine could make.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from calls import Answer, Call
from devices import Device, Running
from histories import History
from host_programs import Program
from oracle import END, QUERIES, Oracle
from oracle_ranks import Happening, Rank
from played_hosts import PlayedHost
from ports import Network
from rules import covers, records, waits_for
from system import System

from sim_server.collectives.tuning import comm_init_ns
from sim_server.records import WaitKind


class NoLegacyStream(Oracle):
    """The default stream is like any other."""

    def waits_for(self, call: Call, earlier: Call) -> bool:
        return waits_for(call, earlier) and (
            call.wait is not None
            or call.stream == earlier.stream
            or (call.what == "follow" and records(earlier, call.args[0]))
        )


class EveryStreamBlocks(Oracle):
    """Non-blocking streams wait for the default stream too."""

    def waits_for(self, call: Call, earlier: Call) -> bool:
        return waits_for(_blocking(call), _blocking(earlier))


def _blocking(call: Call) -> Call:
    return call._replace(stream=call.stream._replace(blocking=True))


class NoEvents(Oracle):
    """A stream does not wait for another stream's event."""

    def waits_for(self, call: Call, earlier: Call) -> bool:
        return waits_for(call._replace(what="function") if call.what == "follow" else call, earlier)


class LateRanksFirst(Oracle):
    """What happens at one time happens in the reverse order of ranks."""

    def order(self, happening: Happening) -> tuple[object, ...]:
        time_ns, round_, phase, rank, order, _ = happening
        return time_ns, round_, phase, -rank, order


class CopiesBeforeKernels(Oracle):
    """Of what ends at one time in a rank, copies and launches come before kernels."""

    def order(self, happening: Happening) -> tuple[object, ...]:
        time_ns, round_, phase, rank, (source, place), _ = happening
        return time_ns, round_, phase, rank, (-source if phase == END else source, place)


class QuestionsFirst(Oracle):
    """A query does not see what ends at its time."""

    def order(self, happening: Happening) -> tuple[object, ...]:
        what = happening.what
        first = isinstance(what, Call) and what.wait in QUERIES
        phase = -1 if first else happening.phase
        return happening.time_ns, happening.round, phase, happening.rank, happening.order


class QueriesSeeOneMore(Oracle):
    """An event is reported done when the one before it is."""

    def reply(self, rank: Rank, call: Call) -> Answer:
        if call.wait is WaitKind.QUERY_EVENT and call.args[0] > 1:
            call = call._replace(args=(call.args[0] - 1,))
        return super().reply(rank, call)


class LastCopyFirst(Oracle):
    """A copy engine takes the copy that came last."""

    def start_copy(self, rank: Rank) -> None:
        for copies in rank.copying.values():
            if not any(copy in rank.timed for copy in copies):
                copies.reverse()
        super().start_copy(rank)


class FreeDevice(Device):
    """Kernels that do not slow each other down."""

    def speed(self) -> Fraction:
        return Fraction(1)


class FreeCommunication(Device):
    """Launches of collectives that take no multiprocessors."""

    def occupy(self, more: int, now_ns: int) -> None:
        self.move_to(now_ns)


class KernelsShareNothing(Oracle):
    """Kernels run as if alone."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for rank in self.ranks:
            rank.devices = [FreeDevice() for _ in rank.devices]


class CollectivesTakeNoMultiprocessors(Oracle):
    """Kernels do not notice collectives."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for rank in self.ranks:
            rank.devices = [FreeCommunication() for _ in rank.devices]


class LonelyNetwork(Network):
    """Flows that do not share ports."""

    def share(self) -> None:
        for flow in self.flows:
            flow.rate = Fraction(1)


class OperationsShareNothing(Oracle):
    """Collectives run as if alone."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.network = LonelyNetwork()


class HurriedDevice(Device):
    """A device that rounds the ends of kernels down."""

    def next_end(self) -> tuple[int, Running] | None:
        end = super().next_end()
        if end is None:
            return None
        left_ns = end[1].left_ns / self.speed()
        return self.since_ns + max(floor(left_ns), 0), end[1]


class KernelsEndEarly(Oracle):
    """Ends are rounded down."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for rank in self.ranks:
            rank.devices = [HurriedDevice() for _ in rank.devices]


class CoarseDevice(Device):
    """A device that keeps account of work in steps of 2**-16 ns."""

    def move_to(self, now_ns: int) -> None:
        super().move_to(now_ns)
        for kernel in self.running:
            kernel.left_ns = Fraction(ceil(kernel.left_ns * 2**16), 2**16)


class KernelsLoseFractions(Oracle):
    """Work is rounded whenever the rate changes, and so ends a nanosecond late at times."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for rank in self.ranks:
            rank.devices = [CoarseDevice() for _ in rank.devices]


class DeviceWaitsForOneStream(Oracle):
    """A synchronisation of the device covers the default stream and those it blocks only."""

    def waits_for(self, call: Call, earlier: Call) -> bool:
        if call.wait is WaitKind.DEVICE and not covers(call.stream, earlier.stream):
            return False
        return waits_for(call, earlier)


class SplitsStartAtOnce(Oracle):
    """A rank's split does not wait for those that ask for another colour."""

    def tell(self, number: int, call: Call, issue_ns: int, answer: Answer) -> None:
        if call.wait is WaitKind.COMM_SPLIT and len(answer.members) == 1:
            answer = answer._replace(time_ns=issue_ns + comm_init_ns(1))
        super().tell(number, call, issue_ns, answer)


WRONG_ORACLES = (
    NoLegacyStream,
    EveryStreamBlocks,
    NoEvents,
    LateRanksFirst,
    CopiesBeforeKernels,
    QuestionsFirst,
    QueriesSeeOneMore,
    LastCopyFirst,
    KernelsShareNothing,
    KernelsEndEarly,
    KernelsLoseFractions,
    CollectivesTakeNoMultiprocessors,
    OperationsShareNothing,
    DeviceWaitsForOneStream,
    SplitsStartAtOnce,
)


class UnboundedSystem(System):
    """Time does not heed the ranks that run: all are treated as if they waited outside."""

    def feed(self, host: PlayedHost, cells: bytes, clock_ns: int) -> None:
        super().feed(host, cells, clock_ns)
        self.simulation.set_aside(host.rank, self.simulation.wakeups)


class HastySystem(System):
    """Ranks guarantee more than they keep."""

    def clock_ns(self, host: PlayedHost) -> int:
        return super().clock_ns(host) + 50


class ForgetfulSystem(System):
    """The news that a rank gets say that one event more is done."""

    def history(self) -> History:
        history = super().history()
        history.news = [
            news._replace(done=news.pending) if news.pending else news for news in history.news
        ]
        return history


WRONG_SYSTEMS = (UnboundedSystem, HastySystem, ForgetfulSystem)
