"""A rank that a test plays: its host runs until it waits, its records lie ready to be delivered."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

from calls import Answer, Call, Host, Stream
from encoding import FIRST_STREAMS, Encoder, dated, outside_wait
from histories import News
from host_programs import Program, host

from sim_server.log.run_log import Reply
from sim_server.records import ReplyStatus, WaitKind

EVENT_NEWS = struct.Struct("<IIQQQ")


@dataclass
class Known:
    """What a rank has been told about the events of a stream, as
    csrc/shim/waiting/event_progress.cc keeps it.
    """

    done: int = 0
    pending: list[tuple[int, int]] = field(default_factory=list)
    """Instances, and the times before which they are not done."""

    def learn(self, news: News) -> None:
        """The rank was told more."""
        self.done = max(self.done, news.done)
        if news.pending:
            self.pending.append((news.pending, news.not_before_ns))

    def ready(self, event: int, now_ns: int) -> bool | None:
        """Whether an event is done now; None: that has to be asked."""
        if event <= self.done:
            return True
        if any(one <= event and now_ns < until_ns for one, until_ns in self.pending):
            return False
        return None


class PlayedHost:
    """One rank."""

    def __init__(self, rank: int, program: Program, uses_news: bool) -> None:
        self.rank = rank
        self.waiting = False
        self.gone = False
        self.clock_ns = 0
        """When the host issued its last call, or went on."""
        self.guarantee_ns = 0
        """The simulation was told that nothing more is issued before."""
        self.answers: list[Answer] = []
        self.news: list[News] = []
        self.instances = 0
        self._uses_news = uses_news
        self._encoder = Encoder()
        self._ready: deque[tuple[int, bytes, bool]] = deque()
        self._dated_ns = 0
        self._asked: Call | None = None
        self._streams: dict[int, Stream] = {}
        self._known: dict[tuple[int, int], Known] = {}
        for stream in FIRST_STREAMS:
            self._write(Call("create", 0, stream))
        self._host: Host = host(program, rank)
        self._run(None)

    # What the simulation gets

    @property
    def next_ns(self) -> int:
        """Nothing is issued before that was not delivered."""
        return self._ready[0][0] if self._ready else self.clock_ns

    @property
    def between_records(self) -> bool:
        """Whether another thread may write now: a record is not interrupted."""
        return not self._ready or self._ready[0][2]

    @property
    def left(self) -> int:
        """Cells that were not delivered."""
        return len(self._ready)

    def take(self, most: int) -> bytes:
        """The next cells, `most` at most."""
        taken: list[bytes] = []
        while self._ready and len(taken) < most:
            issue_ns, cells, is_record = self._ready.popleft()
            if is_record:
                cells = dated(cells, issue_ns - self._dated_ns)
                self._dated_ns = self.guarantee_ns = issue_ns
            taken.append(cells)
        self.waiting = self._asked is not None and not self._ready
        return b"".join(taken)

    def come_back(self) -> bytes:
        """It was set aside, and now waits for the simulation's time."""
        assert not self.waiting, "only a running rank is set aside"
        self.waiting = True
        gap_ns = self.guarantee_ns - self._dated_ns
        self._dated_ns = self.guarantee_ns
        return dated(outside_wait(), gap_ns)

    # What the simulation says

    def resume(self, reply: Reply) -> None:
        """It was set aside, and goes on."""
        assert reply.time_ns == self._dated_ns, "a rank that was set aside lost time"
        self.waiting = self._asked is not None and not self._ready

    def answer(self, reply: Reply) -> None:
        """The answer that the program waits for."""
        call = self._asked
        assert call is not None, "the rank did not wait"
        value = reply.value - (1 << 64) if reply.value >> 63 else reply.value
        members: tuple[int, ...] = ()
        if call.wait in (WaitKind.COMM_INIT, WaitKind.COMM_SPLIT):
            *ranks, _ = struct.unpack(f"<{len(reply.payload) // 4}I", reply.payload)
            members = tuple(ranks)
        else:
            self._learn(reply)
        self._dated_ns = max(self._dated_ns, reply.time_ns)
        self.guarantee_ns = max(self.guarantee_ns, reply.time_ns)
        self.waiting = False
        self._run(Answer(reply.time_ns, reply.status == ReplyStatus.DONE, value, members))

    def _learn(self, reply: Reply) -> None:
        for stream, device, *rest in EVENT_NEWS.iter_unpack(reply.payload):
            news = News(self.rank, reply.time_ns, *rest)
            self.news.append(news)
            self._known.setdefault((stream, device), Known()).learn(news)

    # The host

    def _run(self, answer: Answer | None) -> None:
        self._asked = None
        try:
            call = next(self._host) if answer is None else self._host.send(self._kept(answer))
            while True:
                self.clock_ns += call.gap_ns
                known = self._known_answer(call)
                if known is not None:
                    call = self._host.send(self._kept(known))
                    continue
                self._write(call)
                if call.wait is not None:
                    self._asked = call
                    return
                call = next(self._host)
        except StopIteration:
            return

    def _kept(self, answer: Answer) -> Answer:
        self.clock_ns = max(self.clock_ns, answer.time_ns)
        self.answers.append(answer)
        return answer

    def _known_answer(self, call: Call) -> Answer | None:
        if call.wait is not WaitKind.QUERY_EVENT or not self._uses_news:
            return None
        stream = self._streams[call.args[0]]
        known = self._known.get((stream.identifier, stream.device), Known())
        ready = known.ready(call.args[0], self.clock_ns)
        return None if ready is None else Answer(self.clock_ns, ready)

    def _write(self, call: Call) -> None:
        if call.what == "record":
            self.instances = call.args[0]
            self._streams[self.instances] = call.stream
        for number, cells in enumerate(self._encoder.cells(call)):
            self._ready.append((self.clock_ns, cells, number == 0))
