"""The oracle: a small, slow simulator of whole programs, written from the documents.

It runs the host of every rank as soon as that can go on, so that it always knows everything that
can happen next; of all that, it carries out the first. There is no bound, no delivery and nothing
that is forgotten. The rules are those of docs/oracle.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fractions import Fraction

from calls import Answer, Call, Stream
from devices import Running
from histories import History, Operation, Span
from host_programs import Program, host
from meetings import Meeting, Meetings
from oracle_ranks import CREATIONS, Happening, Item, Rank, waits_for_own
from ports import Network, transport
from rules import covers, duration_ns, is_inside, waits_for

from sim_server.collectives.tuning import comm_init_ns
from sim_server.records import NcclOpKind, WaitKind

QUERIES = (WaitKind.QUERY_STREAM, WaitKind.QUERY_EVENT, WaitKind.ELAPSED)

# What comes first at one time.
END, QUESTION, WAIT, ISSUE = range(4)

# Kinds of spans.npy.
SPANS = {"kernel": 1, "copy": 2, "fill": 3, "launch": 4, "wait": 5}


class Oracle:
    """One run of a program."""

    def __init__(self, program: Program) -> None:
        self.now_ns = 0
        self.ranks = [Rank(host(program, rank)) for rank in range(program.ranks)]
        self.network = Network()
        self.meetings = Meetings()
        self.moving: dict[int, Meeting] = {}
        self.operations: list[Operation] = []
        self.spans: list[Span] = []

    def run(self) -> History:
        """Everything, from the beginning to the end."""
        for rank in self.ranks:
            self.go_on(rank, None)
        while True:
            first = min(self.happenings(), default=None, key=self.order)
            network_ns = self.network.next_ns()
            if first is not None and (network_ns is None or first.time_ns <= network_ns):
                self.now_ns = first.time_ns
                self.carry_out(first)
            elif network_ns is not None:
                self.now_ns = network_ns
                for number in self.network.move_to(network_ns):
                    self.end_operation(number)
            else:
                break
        return History(
            spans=self.spans,
            operations=self.operations,
            answers=[rank.answers for rank in self.ranks],
            clocks_ns=[rank.clock_ns for rank in self.ranks],
            recorded_ns=[rank.recorded_ns for rank in self.ranks],
        )

    def go_on(self, rank: Rank, answer: Answer | None) -> None:
        """Run a rank's host until it waits again."""
        if answer is not None:
            rank.answers.append(answer)
            rank.clock_ns = max(rank.clock_ns, answer.time_ns)
        try:
            call = next(rank.host) if answer is None else rank.host.send(answer)
            while True:
                rank.clock_ns += call.gap_ns
                if call.what not in ("memory", "create", "destroy"):
                    rank.issued.append((rank.clock_ns, call))
                if call.wait is not None:
                    return
                call = next(rank.host)
        except StopIteration:
            return

    # The order of everything

    def order(self, happening: Happening) -> tuple[object, ...]:
        """By time, round, phase, rank; then kernels by device, then copies and launches."""
        return happening[:5]

    def happenings(self) -> Iterator[Happening]:
        """What can happen next on hosts and devices."""
        for number, rank in enumerate(self.ranks):
            for ordinal, device in enumerate(rank.devices):
                if (end := device.next_end()) is not None:
                    end_ns, running = end
                    round_ = rank.round_at(end_ns).number
                    yield Happening(end_ns, round_, END, number, (0, ordinal), running.item)
            for place, item in enumerate(rank.timed):
                round_ = rank.round_at(item.end_ns).number
                yield Happening(item.end_ns, round_, END, number, (1, place), item)
            if rank.question is not None:
                time_ns, call = rank.question
                round_ = rank.round_at(time_ns).number
                yield Happening(time_ns, round_, QUESTION, number, (2, 0), call)
            if rank.issued:
                time_ns, call = rank.issued[0]
                phase = WAIT if waits_for_own(call) else ISSUE
                round_ = rank.round_of(time_ns, call).number
                yield Happening(time_ns, round_, phase, number, (3, 0), call)

    def carry_out(self, first: Happening) -> None:
        """Let it happen now."""
        rank = self.ranks[first.rank]
        if isinstance(first.what, Item):
            if first.what in rank.timed:
                rank.timed.remove(first.what)
            else:
                rank.device(first.what).remove(first.what, self.now_ns)
            self.start(self.complete(first.what))
        elif first.phase == QUESTION:
            rank.question = None
            self.go_on(rank, self.reply(rank, first.what))
        else:
            rank.issued.popleft()
            rank.round = rank.round_of(self.now_ns, first.what)
            self.issue(first.rank, first.what)

    # Calls

    def issue(self, number: int, call: Call) -> None:
        """The host makes this call now."""
        rank = self.ranks[number]
        if call.wait in QUERIES:
            rank.question = (self.now_ns, call)
        elif call.wait in CREATIONS:
            self.create(number, call)
        else:
            after = [one for one in rank.items if self.waits_for(call, one.call)]
            item = Item(number, call, self.now_ns, after)
            rank.items.append(item)
            if not after:
                self.start([item])

    def waits_for(self, call: Call, earlier: Call) -> bool:
        """The rules of streams."""
        return waits_for(call, earlier)

    def reply(self, rank: Rank, call: Call) -> Answer:
        """What a rank is told that asks now."""
        if call.wait is WaitKind.QUERY_STREAM:
            work = [one for one in rank.items if one.call.what != "wait"]
            busy = any(covers(call.stream, item.call.stream) for item in work)
            return Answer(self.now_ns, ready=not busy)
        if any(event not in rank.recorded_ns for event in call.args):
            return Answer(self.now_ns, ready=False)
        if call.wait is WaitKind.QUERY_EVENT:
            return Answer(self.now_ns)
        first_ns, second_ns = (rank.recorded_ns[event] for event in call.args)
        return Answer(self.now_ns, value=second_ns - first_ns)

    def create(self, number: int, call: Call) -> None:
        """A rank takes part in the creation of communicators, which its last member completes."""
        if call.wait is WaitKind.COMM_INIT:
            done = self.meetings.at_creation(number, self.now_ns, call.args)
        else:
            done = self.meetings.at_split(number, self.now_ns, call.args)
        if done is None:
            return
        colours: dict[int, list[tuple[int, int, int, int]]] = {}
        for place, (rank, came_ns, wish) in enumerate(done.in_order):
            colour, key = wish or (0, 0)
            colours.setdefault(colour, []).append((key, place, rank, came_ns))
        for colour, group in sorted(colours.items()):
            ranks = [rank for _, _, rank, _ in sorted(group)]
            value = 0 if colour == -1 else self.meetings.create(ranks)
            end_ns = self.now_ns + comm_init_ns(len(ranks))
            for _, _, rank, came_ns in group:
                self.tell(rank, call, came_ns, Answer(end_ns, True, value, tuple(ranks)))

    def tell(self, number: int, call: Call, issue_ns: int, answer: Answer) -> None:
        """End the wait of a rank."""
        assert call.wait is not None, "only a wait is answered"
        stream = call.stream
        if call.wait is not WaitKind.STREAM:
            stream = stream._replace(identifier=0)
        if call.wait is not WaitKind.RESUME:  # a sleep takes a rank's own time, and is no work
            self.log(number, call, stream, int(call.wait), (issue_ns, issue_ns, answer.time_ns))
        self.go_on(self.ranks[number], answer)

    # Items

    def start(self, ready: list[Item]) -> None:
        """Start items; what they complete at once makes others ready, which start after them."""
        queue = deque(ready)
        while queue:
            item = queue.popleft()
            item.start_ns = self.now_ns
            rank, what = self.ranks[item.rank], item.call.what
            if what in ("kernel", "fill") or is_inside(item.call):
                demand = Fraction(item.call.args[1], 8) if what == "kernel" else Fraction(1)
                work_ns = Fraction(duration_ns(item.call))
                rank.device(item).add(Running(item, work_ns, demand), self.now_ns)
            elif what == "copy":
                rank.copies(item).append(item)
                self.start_copy(rank)
            elif what == "launch":
                self.arrive(item)
            else:
                queue.extend(self.complete(item))

    def complete(self, item: Item) -> list[Item]:
        """An item is done. Returns what waited only for it, in the order of issue."""
        rank, call = self.ranks[item.rank], item.call
        rank.items.remove(item)
        if call.what == "record":
            rank.recorded_ns[call.args[0]] = self.now_ns
        elif call.what == "wait":
            self.tell(item.rank, call, item.issue_ns, Answer(self.now_ns))
        elif call.what == "launch":
            rank.device(item).occupy(-1, self.now_ns)
        elif call.what in SPANS:
            what = 0 if call.what == "fill" else call.args[0]
            times = (item.issue_ns, item.start_ns, self.now_ns)
            self.log(item.rank, call, call.stream, what, times)
            if call.what == "copy" and not is_inside(call):
                rank.copies(item).remove(item)
                self.start_copy(rank)
        waiting = [one for one in rank.items if item in one.after]
        for one in waiting:
            one.after.remove(item)
        return [one for one in waiting if not one.after]

    def start_copy(self, rank: Rank) -> None:
        """Every engine runs the copy that has waited longest."""
        for copies in rank.copying.values():
            if copies and copies[0] not in rank.timed:
                copies[0].start_ns = self.now_ns
                copies[0].end_ns = self.now_ns + duration_ns(copies[0].call)
                rank.timed.append(copies[0])

    # Communication

    def arrive(self, item: Item) -> None:
        """A launch occupies its device; its operations begin once all participants have come."""
        self.ranks[item.rank].device(item).occupy(1, self.now_ns)
        item.unfinished = len(item.call.ops)
        for op in item.call.ops:
            meeting = self.meetings.at_operation(item.rank, self.now_ns, op, item)
            if meeting is None:
                continue
            kind = NcclOpKind.SEND if op.kind is NcclOpKind.RECV else op.kind
            members = tuple(rank for rank, _, _ in meeting.in_order)
            arrivals_ns = tuple(came_ns for _, came_ns, _ in meeting.in_order)
            number = len(self.operations)
            self.operations.append(
                Operation(
                    kind.name.lower(), op.comm, op.elements, members, arrivals_ns, self.now_ns
                )
            )
            self.moving[number] = meeting
            self.network.begin(number, transport(kind, members, op.peer, op.elements), self.now_ns)

    def end_operation(self, number: int) -> None:
        """An operation is over, for all participants at once."""
        meeting = self.moving.pop(number)
        ends_ns = (self.now_ns,) * meeting.size
        self.operations[number] = self.operations[number]._replace(ends_ns=ends_ns)
        for rank, came_ns, item in meeting.in_order:
            times = (item.issue_ns, came_ns, self.now_ns)
            self.log(rank, item.call, item.call.stream, number, times)
            item.unfinished -= 1
            if item.unfinished == 0:
                item.end_ns = self.now_ns
                self.ranks[rank].timed.append(item)

    def log(
        self, rank: int, call: Call, stream: Stream, what: int, times_ns: tuple[int, int, int]
    ) -> None:
        """Keep a span."""
        kind = SPANS[call.what]
        self.spans.append(Span(rank, kind, stream.device, stream.identifier, what, *times_ns))
