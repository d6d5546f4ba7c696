"""Ranks that a test plays against a simulation: their scripts, and where each of them stands.

A script is a Program of the engine's tests with what only the server understands beside it.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from engine_harness import Program, op

from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.log.run_log import Reply
from sim_server.records import (
    RECORD_TYPE,
    MarkerKind,
    NcclOpKind,
    RecordKind,
    WaitKind,
    position_of,
)
from sim_server.records.writer import announcement
from sim_server.settings import Settings
from sim_server.simulation import Simulation

COMM_STREAM = 3
FLOAT = 7
GEMM = {
    **{"kind": "gemm", "library": "cublasLt", "m": 1024, "n": 1024, "batch": 1, "beta": False},
    **{"transa": "N", "transb": "N", "lda": 1024, "ldb": 1024, "ldc": 1024, "epilogue": "none"},
    **dict.fromkeys("abcd", "bf16"),
    "compute": "f32",
}

_LOOKUP_ID = 1 << 20
LOOKUP = {
    **{"kind": "kernel", "name": "_Z3bagPKl", "grid": [8, 1, 1], "block": [32, 1, 1]},
    **{"shared_bytes": 0, "scalars": []},
}


def make_settings(ranks: int, nodes: int = 1) -> Settings:
    """A run on H100s."""
    return Settings(ranks, nodes, ranks // nodes, load_cluster("h100"), load_gpu("h100"))


class Script(Program):
    """What one rank does; every method appends."""

    def announce(self, kind: RecordKind, payload: bytes, gap: int = 0, **fields: int) -> Script:
        step = announcement(kind, payload, host_gap_ns=gap, **fields)
        self.steps.append((step, gap, False))
        return self

    def site(self, identifier: int, line: str) -> Script:
        return self.announce(RecordKind.SITE, line.encode(), id=identifier)

    def gemm(self, k: int = 1024, stream: int = 2, gap: int = 0) -> Script:
        """A matrix product of 1024 by k by 1024; its signature is announced once."""
        if k not in self.timings:
            self.timings[k] = (0, 1.0)
            self.announce(RecordKind.SIGNATURE, json.dumps(GEMM | {"k": k}).encode(), id=k)
        self.do(RecordKind.KERNEL, stream=stream, id=k, gap=gap)
        return self

    def lookup(self, sizes: Mapping[str, int], stream: int = 2) -> Script:
        """One kernel of bags, with sizes of its own."""
        signature = LOOKUP | {"sizes": sizes} if sizes else LOOKUP
        self.timings[_LOOKUP_ID] = (0, 1.0)
        self.announce(RecordKind.SIGNATURE, json.dumps(signature).encode(), id=_LOOKUP_ID)
        self.do(RecordKind.KERNEL, stream=stream, id=_LOOKUP_ID)
        return self

    def join(self, unique_id: int, size: int, position: int, gap: int = 0) -> Script:
        self.wait(WaitKind.COMM_INIT, unique_id=unique_id, size=size, position=position, gap=gap)
        return self

    def split(self, parent: int, colour: int, key: int, index: int = 0) -> Script:
        self.wait(WaitKind.COMM_SPLIT, parent=parent, color=colour, key=key, index=index)
        return self

    def all_reduce(
        self,
        sequence: int,
        count: int = 1 << 20,
        comm: int = 1,
        gap: int = 0,
        site: int = 0,
        *,
        device: int = 0,
    ) -> Script:
        """On the device's own stream, where it is not 0."""
        operation = {"comm": comm, "count": count, "dtype": FLOAT, "device": device}
        self.nccl(
            op(NcclOpKind.ALL_REDUCE, sequence, **operation),
            stream=0 if device else COMM_STREAM,
            gap=gap,
            site=site,
            device=device,
        )
        return self

    def step(self, name: str = "AdamW#0", gap: int = 0) -> Script:
        """The marker of an optimizer's step."""
        return self.announce(
            RecordKind.MARKER, name.encode(), gap=gap, id=int(MarkerKind.OPTIMIZER_STEP)
        )

    def resume(self) -> Script:
        """Comes back after it was set aside."""
        self.wait(WaitKind.RESUME)
        return self

    def synchronise(self, gap: int = 0, site: int = 0) -> Script:
        self.wait(WaitKind.DEVICE, gap=gap, site=site)
        return self


def training(rank: int, ranks: int, alike: bool = False, iterations: int = 3) -> Script:
    """A small data-parallel loop: two buckets that overlap with products, then the optimizer.

    `alike`: ranks do everything at the same time, so that nothing but order tells them apart.
    """
    script = Script().site(1, "train.py:10 main").join(77, ranks, rank)
    script.split(1, colour=rank % 2, key=-rank)
    for iteration in range(iterations):
        script.gemm(k=512 * (1 if alike else 1 + rank % 3), gap=300 + 7 * rank * (not alike))
        for bucket in (0, 1):
            computed = script.record(stream=2, gap=50)
            script.stream_wait(computed, stream=COMM_STREAM)
            script.all_reduce(2 * iteration + bucket, count=4 << 20, gap=90, site=1)
            script.gemm(k=2048)
        script.all_reduce(iteration, count=999, comm=2 + rank % 2, gap=10)
        script.step(gap=20).synchronise(gap=40, site=1)
    return script


class PlayedRanks:
    """Where each rank stands in its script."""

    def __init__(self, scripts: Sequence[Program]) -> None:
        self._scripts = scripts
        self._at = [0] * len(scripts)
        self.clocks_ns = [0] * len(scripts)
        self.waiting = [False] * len(scripts)
        self.gone = [False] * len(scripts)

    def take(self, rank: int, most: int | None = None) -> bytes:
        """The rank's next records, until it waits; at most `most` of its steps."""
        steps = self._scripts[rank].steps
        cells = b""
        while self._at[rank] < len(steps) and not self.waiting[rank] and most != 0:
            step, gap_ns, waits = steps[self._at[rank]]
            cells += step
            self.clocks_ns[rank] += gap_ns
            self.waiting[rank] = waits
            self._at[rank] += 1
            most = None if most is None else most - 1
        return cells

    def answer(self, rank: int, time_ns: int) -> None:
        """The rank goes on."""
        self.waiting[rank] = False
        self.clocks_ns[rank] = max(self.clocks_ns[rank], time_ns)

    def next_wait(self, rank: int) -> tuple[int, int] | None:
        """Kind and slot of the rank's next step, if that is a wait."""
        steps = self._scripts[rank].steps
        if self._at[rank] == len(steps):
            return None
        record = np.frombuffer(steps[self._at[rank]][0], RECORD_TYPE)[0]
        return (
            (int(record["id"]), int(record["arg"][position_of(RecordKind.WAIT, "slot")]))
            if record["kind"] == RecordKind.WAIT
            else None
        )

    def leaves(self, rank: int) -> bool:
        """True once: when the rank has come to its end."""
        if self.gone[rank] or self.waiting[rank] or self._at[rank] < len(self._scripts[rank].steps):
            return False
        self.gone[rank] = True
        return True


def play(
    scripts: Sequence[Program],
    settings: Settings | None = None,
    rng: random.Random | None = None,
    after_advance: Callable[[Simulation], None] = lambda _: None,
    until_steady: bool = False,
) -> tuple[Simulation, list[Reply]]:
    """Plays scripts of the ranks that run to their end, or until the iteration time has settled.
    `rng`: cuts and shuffles what is delivered.

    Raises: what the simulation raises.
    """
    settings = settings or make_settings(len(scripts))
    simulation = Simulation(settings, until_steady=until_steady)
    ranks = PlayedRanks(scripts)
    live = list(settings.live_ranks)
    replies: list[Reply] = []
    while not all(ranks.gone):
        order = list(range(len(scripts)))
        if rng is not None:
            rng.shuffle(order)
            order = order[: rng.randint(1, len(order))]
        for rank in order:
            cells = ranks.take(rank, None if rng is None else rng.randint(0, 4))
            simulation.feed(live[rank], cells, ranks.clocks_ns[rank])
            if ranks.leaves(rank):
                simulation.exited(live[rank], 0)
        answered = simulation.advance()
        after_advance(simulation)
        for reply in answered:
            ranks.answer(live.index(reply.rank), reply.time_ns)
        replies += answered
        if until_steady and simulation.steady is not None:
            break
    return simulation, replies


def whole_files(pieces: Iterable[tuple[str, bytes]]) -> dict[str, Any]:
    """The files of a run by name: JSON is read, and what came in pieces is put together."""
    whole: dict[str, Any] = {}
    for name, content in pieces:
        folder, _, piece = name.rpartition("/")
        if name.endswith(".npy"):
            rows = np.load(io.BytesIO(content))
            whole[folder] = np.concatenate([whole[folder], rows]) if folder in whole else rows
        elif piece.endswith(".bin"):
            whole[folder] = whole.get(folder, b"") + content
        elif folder:
            whole[folder] = whole.get(folder, []) + json.loads(content)
        else:
            whole[name] = json.loads(content) if name.endswith(".json") else content
    return whole
