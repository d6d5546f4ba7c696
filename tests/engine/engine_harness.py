"""Plays ranks against the engine: record streams, a trivial network, deliveries in any order.

Device of the tests: 100 multiprocessors, 20 of which an NCCL launch takes; copies move 1 byte/ns
after a latency of 10 ns; fills 2 bytes/ns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim_server._engine import Engine, Ready
from sim_server.records import (
    RECORD_TYPE,
    CopyFlags,
    CopyKind,
    NcclOpKind,
    RecordKind,
    StreamFlags,
    WaitFlags,
    WaitKind,
)
from sim_server.records.writer import announcement, record, wait

BYTES_PER_S = 1_000_000_000
COPY_RATES = {(int(kind), False): (10, BYTES_PER_S) for kind in CopyKind} | {
    (int(CopyKind.HOST_TO_DEVICE), True): (10, BYTES_PER_S / 2)
}


def make_engine(ranks: int = 1) -> Engine:
    """An engine of the tests' devices."""
    return Engine(
        ranks=ranks,
        sm_count=100,
        comm_sm=20,
        copy_rates=COPY_RATES,
        fill_rate=(0, 2 * BYTES_PER_S),
    )


def cell(kind: RecordKind, *args: int, **fields: int) -> bytes:
    """One record with these words, also such as no rank writes."""
    made = np.frombuffer(record(kind, **fields), RECORD_TYPE).copy()
    made["arg"][0, : len(args)] = [word & (1 << 64) - 1 for word in args]
    return made.tobytes()


@dataclass
class Program:
    """What one rank does: whole records, in order. Stream 1 is blocking, the others are not."""

    streams: int = 3
    steps: list[tuple[bytes, int, bool]] = field(default_factory=list)
    """Cells, host gap, whether the rank waits for an answer."""
    timings: dict[int, tuple[int, float]] = field(default_factory=dict)
    events: int = 0

    def __post_init__(self) -> None:
        for stream in range(1, self.streams + 1):
            flags = 0 if stream == 1 else StreamFlags.NON_BLOCKING
            self.do(RecordKind.STREAM_CREATE, stream=stream, flags=int(flags))

    def do(self, kind: RecordKind, gap: int = 0, **fields: int) -> Program:
        self.steps.append((record(kind, host_gap_ns=gap, **fields), gap, False))
        return self

    def kernel(
        self, duration_ns: int, stream: int = 2, demand: float = 1.0, gap: int = 0, device: int = 0
    ) -> Program:
        signature = len(self.timings) + 1
        self.timings[signature] = (duration_ns, demand)
        self.steps.append((announcement(RecordKind.SIGNATURE, b"{}", id=signature), 0, False))
        return self.do(RecordKind.KERNEL, stream=stream, device=device, id=signature, gap=gap)

    def copy(
        self, size: int, kind: CopyKind, stream: int = 2, gap: int = 0, pageable: bool = False
    ) -> Program:
        flags = int(CopyFlags.PAGEABLE) if pageable else 0
        fields = {"bytes": size, "stream": stream, "id": int(kind), "flags": flags}
        return self.do(RecordKind.COPY, gap=gap, **fields)

    def fill(self, size: int, stream: int = 2) -> Program:
        return self.do(RecordKind.FILL, bytes=size, stream=stream)

    def record(self, stream: int = 2, gap: int = 0) -> int:
        self.events += 1
        self.do(RecordKind.EVENT_RECORD, instance=self.events, stream=stream, gap=gap)
        return self.events

    def stream_wait(self, event: int, stream: int) -> Program:
        return self.do(RecordKind.STREAM_WAIT, instance=event, stream=stream)

    def wait(self, kind: WaitKind, slot: int = 0, gap: int = 0, **fields: int) -> Program:
        holds_up = not fields.get("flags", 0) & WaitFlags.BACKGROUND
        self.steps.append((wait(kind, slot, host_gap_ns=gap, **fields), gap, holds_up))
        return self

    def nccl(
        self, *ops: bytes, stream: int = 3, gap: int = 0, site: int = 0, device: int = 0
    ) -> Program:
        fields = {"operations": len(ops), "stream": stream, "host_gap_ns": gap, "site": site}
        launch = record(RecordKind.NCCL_LAUNCH, device=device, **fields)
        self.steps.append((launch + b"".join(ops), gap, False))
        return self


def op(
    kind: NcclOpKind,
    sequence: int,
    *,
    comm: int = 1,
    count: int = 8,
    root: int = 0,
    dtype: int = 7,
    device: int = 0,
) -> bytes:
    """An NCCL operation."""
    fields = {"count": count, "dtype": dtype, "root": root, "sequence": sequence, "device": device}
    return record(RecordKind.NCCL_OP, id=comm, flags=int(kind), **fields)


@dataclass
class History:
    """All that came of a run."""

    engine: Engine
    spans: np.ndarray
    answers: list[tuple[int, int, int, int]]
    """Rank, status, time, value."""
    ready: list[Ready]
    mismatch: str | None = None

    def rows(self, kind: int, rank: int = 0) -> list[tuple[int, int]]:
        """(start, end) of the spans of a kind, in order of start."""
        chosen = self.spans[(self.spans["kind"] == kind) & (self.spans["rank"] == rank)]
        return sorted(zip(chosen["start_ns"].tolist(), chosen["end_ns"].tolist(), strict=True))

    @property
    def kernels(self) -> list[tuple[int, int]]:
        return self.rows(1)


def play(
    programs: Sequence[Program],
    *,
    operation_ns: Callable[[Ready], int] = lambda ready: 1000,
    seed: int | None = None,
    comms: dict[int, list[int]] | None = None,
) -> History:
    """Run programs until nothing moves. `seed`: shuffles and cuts the deliveries."""
    rng = random.Random(seed)
    engine = make_engine(len(programs))
    for comm, members in (comms or {1: list(range(len(programs)))}).items():
        engine.define_communicator(comm, members)
    at = [0] * len(programs)
    clocks = [0] * len(programs)
    waiting = [False] * len(programs)
    history = History(engine, engine.take_spans(), [], [])
    spans = []
    moved = True
    while moved and history.mismatch is None:
        moved = False
        order = list(range(len(programs)))
        if seed is not None:
            rng.shuffle(order)
            order = order[: rng.randint(1, len(order))]
        for rank in order:
            program = programs[rank]
            most = len(program.steps) if seed is None else rng.randint(0, 5)
            cells = b""
            while at[rank] < len(program.steps) and not waiting[rank] and most > 0:
                step, gap_ns, waits = program.steps[at[rank]]
                cells += step
                clocks[rank] += gap_ns
                waiting[rank] = waits
                at[rank] += 1
                most -= 1
            for heard in engine.feed(rank, cells, clocks[rank]):
                if heard.kind == RecordKind.SIGNATURE:
                    engine.set_duration(rank, heard.id, *program.timings[heard.id], heard.id)
            if at[rank] == len(program.steps) and not waiting[rank]:
                engine.exited(rank)
        while True:
            stop = engine.advance(None, True)
            history.ready += stop.ready
            history.mismatch = stop.mismatch
            for ready in stop.ready:
                end_ns = ready.time_ns + operation_ns(ready)
                engine.finish(ready.operation, [end_ns] * len(ready.arrivals_ns))
            for answer in stop.answers:
                history.answers.append((answer.rank, answer.status, answer.time_ns, answer.value))
                waiting[answer.rank] = False
                clocks[answer.rank] = max(clocks[answer.rank], answer.time_ns)
            moved = moved or bool(stop.answers)
            if not stop.ready:
                break
        moved = moved or any(
            at[rank] < len(programs[rank].steps) and not waiting[rank]
            for rank in range(len(programs))
        )
        moved = moved or bool(set(engine.running_ranks()))
        spans.append(engine.take_spans())
    history.spans = np.concatenate(spans)
    return history
