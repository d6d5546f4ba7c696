"""Programs drawn by hypothesis. Few different numbers, so that much happens at one time."""

from __future__ import annotations

from calls import DEVICES, SLOTS
from host_programs import COLLECTIVES, EVENTS, FIELDS, MEMORY_CALLS, Program, Step
from hypothesis import strategies as st
from machine import MOST_RANKS
from system import Delivery

from sim_server.records import CopyKind

TIMES_NS = st.sampled_from((0, 0, 0, 1, 2, 5, 7, 10, 20, 50, 100, 300))
SIZES = st.sampled_from((0, 1, 6, 10, 30, 50, 60, 90, 120, 300, 600, 3000, 10**10))
RANKS = st.integers(0, MOST_RANKS - 1)
NUMBERS = {
    "rank": RANKS,
    "stream": st.integers(0, len(SLOTS) - 1),
    "event": st.integers(0, EVENTS - 1),
    "second": st.integers(0, EVENTS - 1),
    "device": st.integers(0, DEVICES - 1),
    "duration_ns": st.sampled_from((1, 3, 7, 10, 20, 50, 100, 101, 200, 500)),
    "demand_eighths": st.sampled_from((1, 2, 3, 4, 5, 6, 8, 8)),
    "pageable": st.integers(0, 1),
    "members": st.integers(1, 2**MOST_RANKS - 1),
    "salt": st.integers(0, 2**13 - 1),
    "comm": st.integers(0, 3),
    "root": RANKS,
    "source": RANKS,
    "target": RANKS,
    "shift": RANKS,
    "size_bytes": SIZES,
    "count": SIZES,
    "gap_ns": TIMES_NS,
}
KINDS = {"copy": len(CopyKind), "memory": MEMORY_CALLS, "collective": len(COLLECTIVES)}
# Programs are mostly work and communication; each name as often as it is to be drawn.
LIKELY = {"kernel": 5, "copy": 4, "record": 2, "follow": 2, "collective": 6, "exchange": 3}


Steps = list[Step]


def steps(name: str) -> st.SearchStrategy[Steps]:
    """A step of one name."""
    values = [
        st.integers(0, KINDS[name] - 1)
        if field == "kind"
        else SIZES
        if (name, field) == ("pair", "second")
        else NUMBERS[field]
        for field in FIELDS[name]
    ]
    return st.tuples(*values).map(lambda drawn: [Step(name, drawn)])


@st.composite
def edges(draw: st.DrawFn) -> Steps:
    """A kernel, its event, and somebody who waits for it or asks: rare among independent steps."""
    rank, event, stream, other = (draw(NUMBERS[one]) for one in ("rank", "event", *["stream"] * 2))
    gap_ns = draw(TIMES_NS)
    duration_ns = draw(NUMBERS["duration_ns"])
    made = [
        Step("kernel", (rank, stream, duration_ns, 8, gap_ns)),
        Step("record", (rank, stream, event, 0)),
    ]
    then = draw(st.sampled_from(("follow", "query_event", "poll_event", "sync_event")))
    if then == "follow":
        made.append(Step(then, (rank, other, event, 0)))
        made.append(Step("kernel", (rank, other, draw(NUMBERS["duration_ns"]), 8, 0)))
    else:
        # Often just when the kernel ends.
        made.append(Step(then, (rank, event, draw(st.sampled_from((gap_ns, duration_ns))))))
    return made


@st.composite
def rushes(draw: st.DrawFn) -> Steps:
    """Streams that want the same copy engine, some at once and some when earlier work ends."""
    rank, kind = draw(NUMBERS["rank"]), draw(st.integers(0, len(CopyKind) - 1))
    made = []
    for stream in draw(st.lists(NUMBERS["stream"], min_size=2, max_size=5)):
        before = draw(st.sampled_from(("nothing", "kernel", "copy")))
        if before == "kernel":
            made.append(Step("kernel", (rank, stream, 30, 2, 0)))
        elif before == "copy":
            # A copy from host to host of as long as the kernel.
            made.append(Step("copy", (rank, stream, CopyKind.HOST_TO_HOST - 1, 20, 0, 0)))
        made.append(Step("copy", (rank, stream, kind, draw(SIZES), 0, 0)))
    return made


WORK = (
    [
        steps(name)
        for name in FIELDS
        for _ in range(LIKELY.get(name, 1))
        if name not in ("join", "split")
    ]
    + 5 * [edges()]
    + 4 * [rushes()]
)


@st.composite
def programs(draw: st.DrawFn, most_steps: int = 20) -> Program:
    """Communicators, then work, now and then another communicator. A least number of steps,
    because hypothesis draws short lists mostly.
    """
    least_steps = draw(st.sampled_from((0, most_steps // 4, most_steps // 2)))
    pieces = [
        *draw(st.lists(steps("join"), max_size=2)),
        *draw(st.lists(steps("split"), max_size=1)),
        *draw(st.lists(st.one_of(*WORK), min_size=least_steps, max_size=most_steps)),
        *draw(st.lists(st.one_of(steps("join"), steps("split")), max_size=1)),
        *draw(st.lists(st.one_of(*WORK), max_size=most_steps // 3)),
    ]
    ranks = draw(st.sampled_from((1, 1, 2, 2, 2, 3, 3, 4, 5, MOST_RANKS)))
    return Program(ranks, tuple(step for piece in pieces for step in piece))


DELIVERIES = st.builds(
    Delivery,
    seed=st.integers(0, 2**16),
    uses_news=st.booleans(),
    sets_aside=st.booleans(),
    helpers=st.booleans(),
)
