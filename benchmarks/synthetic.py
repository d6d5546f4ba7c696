"""What a whole simulation costs without ranks: 64 synthetic ones, through `Simulation`.

    python benchmarks/synthetic.py [--rounds 3] [--profile] [--json]

Eight nodes of eight H100s. Every rank does iterations that look like a transformer trained with
tensor parallelism inside the nodes and data parallelism between them: kernels, with an all-reduce
of its node after every six on the same stream, and gradient buckets that are reduced over its rail
on a second stream, ordered by events. In all 10^6 items (kernels, event records, stream waits,
launches) and 20,000 collectives. The records lie ready; what is timed is the simulation with the
pieces of its data file, and then what is left of that. Core seconds of this process.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import deque

import numpy as np
from measurement import Results, median, parser

from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.records import (
    RECORD_TYPE,
    NcclOpKind,
    RecordKind,
    StreamFlags,
    WaitKind,
    position_of,
)
from sim_server.records.writer import record, signature, wait
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.sources.drive import drive
from sim_server.sources.synthetic import Steps, SyntheticRank

NODES, GPUS_PER_NODE = 8, 8
RANKS = NODES * GPUS_PER_NODE
ITERATIONS = 125
TENSOR_REDUCES, BUCKETS = 16, 4  # per rank and iteration
KERNELS_PER_REDUCE = 6
COMPUTE, COMMUNICATION = 1, 2  # streams
KERNEL_GAP_NS = 5_000
TENSOR_COUNT, BUCKET_COUNT = 4 << 20, 16 << 20
HALF = 6
GEMM = {
    **{"kind": "gemm", "library": "cublasLt", "m": 2048, "n": 2048, "k": 2048, "batch": 1},
    **{"transa": "N", "transb": "N", "lda": 2048, "ldb": 2048, "ldc": 2048, "epilogue": "none"},
    **dict.fromkeys("abcd", "bf16"),
    **{"compute": "f32", "beta": False},
}
INSTANCE = position_of(RecordKind.EVENT_RECORD, "instance")
SEQUENCE = position_of(RecordKind.NCCL_OP, "sequence")


def beginning(rank: int) -> bytes:
    """Streams, and the one kernel there is."""
    flags = int(StreamFlags.NON_BLOCKING)
    streams = [record(RecordKind.STREAM_CREATE, stream=s, flags=flags) for s in (1, 2)]
    return b"".join([*streams, signature(1, GEMM)])


def joining(unique_id: int, size: int, position: int) -> bytes:
    """The creation of a communicator."""
    return wait(WaitKind.COMM_INIT, unique_id=unique_id, size=size, position=position)


def all_reduce(comm: int, sequence: int, count: int, stream: int) -> list[bytes]:
    """A launch of one operation."""
    fields = {"count": count, "dtype": HALF, "sequence": sequence}
    return [
        record(RecordKind.NCCL_LAUNCH, operations=1, stream=stream, host_gap_ns=KERNEL_GAP_NS),
        record(RecordKind.NCCL_OP, id=comm, flags=int(NcclOpKind.ALL_REDUCE), **fields),
    ]


class Iterations:
    """The records of a rank's iterations, which differ in their running numbers only."""

    def __init__(self, node_comm: int, rail_comm: int) -> None:
        pieces: list[bytes] = []
        events = 0
        for reduce in range(TENSOR_REDUCES):
            pieces += KERNELS_PER_REDUCE * [
                record(RecordKind.KERNEL, stream=COMPUTE, id=1, host_gap_ns=KERNEL_GAP_NS)
            ]
            pieces += all_reduce(node_comm, reduce, TENSOR_COUNT, COMPUTE)
            if reduce % (TENSOR_REDUCES // BUCKETS) == 0:
                events += 1
                bucket = reduce // (TENSOR_REDUCES // BUCKETS)
                pieces.append(record(RecordKind.EVENT_RECORD, instance=events, stream=COMPUTE))
                pieces.append(record(RecordKind.STREAM_WAIT, instance=events, stream=COMMUNICATION))
                pieces += all_reduce(rail_comm, bucket, BUCKET_COUNT, COMMUNICATION)
        events += 1
        pieces.append(record(RecordKind.EVENT_RECORD, instance=events, stream=COMMUNICATION))
        pieces.append(record(RecordKind.STREAM_WAIT, instance=events, stream=COMPUTE))
        pieces.append(wait(WaitKind.DEVICE))
        self._records = np.frombuffer(b"".join(pieces), RECORD_TYPE)
        self._events = events
        kinds = self._records["kind"]
        self._is_event = (kinds == RecordKind.EVENT_RECORD) | (kinds == RecordKind.STREAM_WAIT)
        is_op = kinds == RecordKind.NCCL_OP
        self._is_node_op = is_op & (self._records["id"] == node_comm)
        self._is_rail_op = is_op & (self._records["id"] == rail_comm)
        items = (RecordKind.KERNEL, RecordKind.NCCL_LAUNCH)
        self.items = int(self._is_event.sum() + np.isin(kinds, items).sum())
        self.operations = int(is_op.sum())

    def cells(self, number: int) -> bytes:
        """One iteration."""
        made = self._records.copy()
        made["arg"][self._is_event, INSTANCE] += number * self._events
        made["arg"][self._is_node_op, SEQUENCE] += number * TENSOR_REDUCES
        made["arg"][self._is_rail_op, SEQUENCE] += number * BUCKETS
        return made.tobytes()


def steps(rank: int, started_s: list[float]) -> Steps:
    """What a rank does; notes when its first iteration begins, with all of them ready."""
    node, rail = divmod(rank, GPUS_PER_NODE)
    node_comm = yield beginning(rank) + joining(node, GPUS_PER_NODE, rail)
    rail_comm = yield joining(100 + rail, NODES, node)
    assert node_comm is not None
    assert rail_comm is not None
    iterations = Iterations(node_comm.value, rail_comm.value)
    ready = deque(iterations.cells(number) for number in range(ITERATIONS))
    yield wait(WaitKind.DEVICE)
    started_s.append(time.process_time())
    while ready:
        yield ready.popleft()
    return b""


def run(profile: cProfile.Profile | None) -> tuple[int, int, float, float]:
    """Items, collectives, and seconds: of the simulation, of what is left of its data."""
    settings = Settings(RANKS, NODES, GPUS_PER_NODE, load_cluster("h100"), load_gpu("h100"))
    simulation = Simulation(settings)
    started_s: list[float] = []
    ranks = [SyntheticRank(rank, steps(rank, started_s)) for rank in range(RANKS)]
    if profile is not None:
        profile.enable()
    drive(simulation, ranks, dict.fromkeys(range(RANKS), 0), lambda name, content: None)
    simulated_s = time.process_time()
    if profile is not None:
        profile.disable()
    for _ in simulation.files():
        pass
    iterations = Iterations(0, 1)
    items = ITERATIONS * RANKS * iterations.items
    operations = ITERATIONS * RANKS * iterations.operations // 8
    return items, operations, simulated_s - min(started_s), time.process_time() - simulated_s


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--profile", action="store_true", help="say where the time goes")
    chosen = options.parse_args()
    if chosen.profile:
        profile = cProfile.Profile()
        run(profile)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    rounds = [run(None) for _ in range(chosen.rounds)]
    items, operations = rounds[0][:2]
    simulated_s = median(one[2] for one in rounds)
    results = Results(
        f"{RANKS} synthetic ranks, {items:,} items, {operations:,} collectives",
        ("quantity", "value"),
    )
    results.add("simulation, core seconds", simulated_s)
    results.add("items per core second", items / simulated_s)
    results.add("collectives per core second", operations / simulated_s)
    results.add("rest of the data file, core seconds", median(one[3] for one in rounds))
    results.show(chosen.json)


if __name__ == "__main__":
    main()
