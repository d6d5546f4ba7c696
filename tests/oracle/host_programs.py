"""Random programs of several ranks: their text, and what the host side of each rank does.

A program is a list of steps. A step concerns one rank, or all members of a communicator; each rank
carries out the steps that concern it, in order, so that no program hangs. Steps that make no sense
(an event that was never recorded, no communicator yet) do nothing, so that every text is a program
and every part of a failing program can be left out.

Oracle and system both run `host`: it is the program, not its simulation. It knows no times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from calls import DEVICES, SLOTS, Call, Host, Op, Stream

from sim_server.records import CopyKind, NcclOpKind, WaitKind

# What a step says after its name; the last is always the host time before each of its calls.
FIELDS = {
    "kernel": ("rank", "stream", "duration_ns", "demand_eighths", "gap_ns"),
    "copy": ("rank", "stream", "kind", "size_bytes", "pageable", "gap_ns"),
    "fill": ("rank", "stream", "size_bytes", "gap_ns"),
    "function": ("rank", "stream", "gap_ns"),
    "record": ("rank", "stream", "event", "gap_ns"),
    "follow": ("rank", "stream", "event", "gap_ns"),
    "renew": ("rank", "stream", "gap_ns"),
    "memory": ("rank", "kind", "size_bytes", "gap_ns"),
    "sync_stream": ("rank", "stream", "gap_ns"),
    "sync_event": ("rank", "event", "gap_ns"),
    "sync_device": ("rank", "device", "gap_ns"),
    "query_stream": ("rank", "stream", "gap_ns"),
    "query_event": ("rank", "event", "gap_ns"),
    "poll_stream": ("rank", "stream", "gap_ns"),
    "poll_event": ("rank", "event", "gap_ns"),
    "elapsed": ("rank", "event", "second", "gap_ns"),
    "sleep": ("rank", "gap_ns"),
    "join": ("members", "gap_ns"),
    "split": ("comm", "salt", "gap_ns"),
    "collective": ("comm", "kind", "stream", "count", "root", "gap_ns"),
    "send": ("comm", "source", "target", "stream", "count", "gap_ns"),
    "exchange": ("comm", "shift", "stream", "count", "gap_ns"),
    "pair": ("comm", "stream", "count", "second", "gap_ns"),
}
COLLECTIVES = (
    NcclOpKind.ALL_REDUCE,
    NcclOpKind.BROADCAST,
    NcclOpKind.REDUCE,
    NcclOpKind.ALL_GATHER,
    NcclOpKind.REDUCE_SCATTER,
    NcclOpKind.ALL_TO_ALL,
    NcclOpKind.GATHER,
    NcclOpKind.SCATTER,
)
EVENTS = 3
MEMORY_CALLS = 4  # allocation, release, failed allocation, marker
# A program that polls looks again after the same time, and ever more rarely when that takes long.
EVEN_POLLS = 6


@dataclass(frozen=True)
class Step:
    """One step by name; `values` as in FIELDS."""

    name: str
    values: tuple[int, ...]

    def __getattr__(self, name: str) -> int:
        if name not in FIELDS[self.name]:
            raise AttributeError(f"a step {self.name} has no {name}")
        return self.values[FIELDS[self.name].index(name)]

    def __str__(self) -> str:
        return f"{self.name}:{','.join(map(str, self.values))}"


@dataclass(frozen=True)
class Program:
    """What all ranks do."""

    ranks: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return " ".join([f"ranks:{self.ranks}", *map(str, self.steps)])

    @classmethod
    def parse(cls, text: str) -> Program:
        """Inverse of `str`. Raises: ValueError for a step that there is not."""
        (_, ranks), *steps = (token.split(":") for token in text.split())
        made = [Step(name, tuple(map(int, values.split(",")))) for name, values in steps]
        for step in made:
            if len(step.values) != len(FIELDS.get(step.name, ())):
                raise ValueError(f"{step} is not a step")
        return cls(int(ranks), tuple(made))


def members_of(program: Program) -> Iterator[tuple[Step, list[tuple[int, tuple[int, ...]]]]]:
    """Each step with the communicators it uses or creates, as number and members."""
    comms: list[tuple[int, ...]] = []
    for step in program.steps:
        if step.name == "join":
            chosen = tuple(rank for rank in range(program.ranks) if step.members >> rank & 1)
            comms.append(chosen or tuple(range(program.ranks)))
            yield step, [(len(comms) - 1, comms[-1])]
        elif "comm" in FIELDS[step.name]:
            if not comms:
                continue
            number = step.comm % len(comms)
            found = [(number, comms[number])]
            if step.name == "split":
                for colour in range(3):
                    part = [
                        (_key(step, at), at, rank)
                        for at, rank in enumerate(comms[number])
                        if _colour(step, at) == colour
                    ]
                    if part:
                        found.append((len(comms), tuple(rank for _, _, rank in sorted(part))))
                        comms.append(found[-1][1])
            yield step, found
        else:
            yield step, []


def _colour(step: Step, position: int) -> int:
    """0 to 2, or -1 for no communicator."""
    return (step.salt >> 2 * position & 3) - 1


def _key(step: Step, position: int) -> int:
    return -position if step.salt & 1 << 12 else 0


@dataclass
class _Rank:
    rank: int
    streams: list[Stream] = field(default_factory=lambda: list(SLOTS))
    made_streams: int = 10
    events: dict[int, int] = field(default_factory=dict)
    instances: int = 0
    comms: dict[int, int] = field(default_factory=dict)
    splits: Counter[int] = field(default_factory=Counter)
    sequences: Counter[tuple[int, int, int]] = field(default_factory=Counter)

    def stream(self, step: Step) -> Stream:
        return self.streams[step.stream % len(SLOTS)]

    def op(self, kind: NcclOpKind, comm: int, count: int, peer: int = 0) -> Op:
        sends = {NcclOpKind.SEND: 1, NcclOpKind.RECV: 2}.get(kind, 0)
        key = (comm, sends, peer if sends else 0)
        self.sequences[key] += 1
        return Op(kind, self.comms[comm], count, peer, self.sequences[key] - 1)


def host(program: Program, rank: int) -> Host:
    """The calls of one rank. What a call with a `wait` is answered has to be sent back."""
    state = _Rank(rank)
    for step, comms in members_of(program):
        if not comms:
            if step.rank % program.ranks == rank:
                yield from _alone(state, step)
        elif rank in comms[0][1]:
            yield from _together(state, step, comms)


def _alone(state: _Rank, step: Step) -> Host:
    """A step of one rank."""
    gap_ns = step.gap_ns
    stream = state.stream(step) if "stream" in FIELDS[step.name] else SLOTS[0]
    event = state.events.get(step.event % EVENTS, 0) if "event" in FIELDS[step.name] else -1
    if event == 0 and step.name != "record":
        return
    if step.name == "kernel":
        demand = min(max(step.demand_eighths, 1), 8)
        yield Call("kernel", gap_ns, stream, (max(step.duration_ns, 1), demand))
    elif step.name == "copy":
        kind = 1 + step.kind % len(CopyKind)
        yield Call("copy", gap_ns, stream, (kind, step.size_bytes, step.pageable % 2))
    elif step.name == "fill":
        yield Call("fill", gap_ns, stream, (step.size_bytes,))
    elif step.name == "function":
        yield Call("function", gap_ns, stream)
    elif step.name == "record":
        state.instances += 1
        state.events[step.event % EVENTS] = state.instances
        yield Call("record", gap_ns, stream, (state.instances,))
    elif step.name == "follow":
        yield Call("follow", gap_ns, stream, (event,))
    elif step.name == "memory":
        yield Call("memory", gap_ns, args=(step.kind % MEMORY_CALLS, step.size_bytes))
    elif step.name == "renew":
        if stream.identifier:
            state.made_streams += 1
            fresh = stream._replace(identifier=state.made_streams)
            state.streams[step.stream % len(SLOTS)] = fresh
            yield Call("destroy", gap_ns, stream)
            yield Call("create", 0, fresh)
    else:
        yield from _ask(state, step, stream, event)


def _ask(state: _Rank, step: Step, stream: Stream, event: int) -> Host:
    """A step of one rank that waits for an answer."""
    gap_ns = step.gap_ns
    if step.name == "sync_stream":
        yield Call("wait", gap_ns, stream, wait=WaitKind.STREAM)
    elif step.name == "sync_event":
        yield Call("wait", gap_ns, args=(event,), wait=WaitKind.EVENT)
    elif step.name == "sync_device":
        device = SLOTS[0]._replace(device=step.device % DEVICES)
        yield Call("wait", gap_ns, device, wait=WaitKind.DEVICE)
    elif step.name == "sleep":
        yield Call("wait", gap_ns, wait=WaitKind.RESUME)
    elif step.name == "elapsed":
        second = state.events.get(step.second % EVENTS, 0)
        if second:
            yield Call("wait", gap_ns, args=(event, second), wait=WaitKind.ELAPSED)
    else:
        args = () if event < 0 else (event,)
        kind = WaitKind.QUERY_STREAM if event < 0 else WaitKind.QUERY_EVENT
        answer = yield Call("wait", gap_ns, stream, args, wait=kind)
        polls, gap_ns = 1, max(gap_ns, 1)
        while step.name.startswith("poll") and answer is not None and not answer.ready:
            answer = yield Call("wait", gap_ns, stream, args, wait=kind)
            polls += 1
            gap_ns *= 2 if polls > EVEN_POLLS else 1


def _together(state: _Rank, step: Step, comms: list[tuple[int, tuple[int, ...]]]) -> Host:
    """A step of a communicator's members."""
    (comm, members), *parts = comms
    at, size = members.index(state.rank), len(members)
    gap_ns = step.gap_ns
    if step.name == "join":
        answer = yield Call("wait", gap_ns, args=(comm, size, at), wait=WaitKind.COMM_INIT)
        assert answer is not None, "a rank that waits is answered"
        state.comms[comm] = answer.value
    elif step.name == "split":
        args = (state.comms[comm], _colour(step, at), _key(step, at), state.splits[comm])
        state.splits[comm] += 1
        answer = yield Call("wait", gap_ns, args=args, wait=WaitKind.COMM_SPLIT)
        assert answer is not None, "a rank that waits is answered"
        state.comms.update((part, answer.value) for part, ranks in parts if state.rank in ranks)
    else:
        ops = tuple(_ops(state, step, comm, at, size))
        if ops:
            yield Call("launch", gap_ns, state.stream(step), ops=ops)


def _ops(state: _Rank, step: Step, comm: int, at: int, size: int) -> Iterator[Op]:
    """The operations of one launch."""
    if step.name == "collective":
        kind = COLLECTIVES[step.kind % len(COLLECTIVES)]
        yield state.op(kind, comm, step.count, step.root % size)
    elif step.name == "send":
        source, target = step.source % size, step.target % size
        if source == target:
            return
        if at == source:
            yield state.op(NcclOpKind.SEND, comm, step.count, target)
        if at == target:
            yield state.op(NcclOpKind.RECV, comm, step.count, source)
    elif step.name == "exchange":
        yield state.op(NcclOpKind.SEND, comm, step.count, (at + step.shift) % size)
        yield state.op(NcclOpKind.RECV, comm, step.count, (at - step.shift) % size)
    else:
        yield state.op(NcclOpKind.ALL_REDUCE, comm, step.count)
        yield state.op(NcclOpKind.ALL_GATHER, comm, step.second)
