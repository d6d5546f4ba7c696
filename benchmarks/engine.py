"""What the server computes per second, without ranks: the device engine and the flow solver.

    python benchmarks/engine.py [--ranks 8] [--rounds 5] [--json]

Engine: every rank is fed iterations that look like data-parallel training, 100 kernels to each
all-reduce, with the events between the streams. Items are kernels, event records, stream waits and
launches of operations. All kernels last as long, and an all-reduce takes a constant time.

Flow solver: max-min rates of flows between random ports, where links fill up one after the other;
and operations of the whole network model when every one is new to it, so that nothing is
remembered.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import simpy
from measurement import Results, median, parser

from sim_server._engine import Engine
from sim_server._network import max_min_rates
from sim_server.cluster import load_cluster
from sim_server.collectives import Communication
from sim_server.gpu import load_gpu
from sim_server.kernels import copy_rates, fill_rate
from sim_server.records import NcclOpKind, RecordKind, StreamFlags, WaitKind
from sim_server.records.operations import Operation
from sim_server.records.writer import record, signature, wait

KERNEL_NS = 10_000
KERNEL_GAP_NS = 4_000
ALL_REDUCE_NS = 200_000
KERNELS_PER_ALL_REDUCE = 100
ALL_REDUCES = 40  # per iteration: 4,205 items
ITERATIONS = 4
COMPUTE, COMMUNICATION = 1, 2  # streams


def beginning() -> bytes:
    """Streams, and the one kernel there is."""
    flags = int(StreamFlags.NON_BLOCKING)
    streams = [
        record(RecordKind.STREAM_CREATE, stream=s, flags=flags) for s in (COMPUTE, COMMUNICATION)
    ]
    return b"".join(streams) + signature(1, {})


def iteration(number: int) -> tuple[bytes, int]:
    """The records of one iteration, up to a wait for the device, and how many items they are."""
    kernels = KERNELS_PER_ALL_REDUCE * record(
        RecordKind.KERNEL, stream=COMPUTE, id=1, host_gap_ns=KERNEL_GAP_NS
    )
    pieces = []
    for position in range(number * ALL_REDUCES, (number + 1) * ALL_REDUCES):
        before, after = 2 * position + 1, 2 * position + 2
        pieces += [
            kernels,
            record(RecordKind.EVENT_RECORD, instance=before, stream=COMPUTE),
            record(RecordKind.STREAM_WAIT, instance=before, stream=COMMUNICATION),
            record(RecordKind.NCCL_LAUNCH, operations=1, stream=COMMUNICATION),
            record(
                RecordKind.NCCL_OP,
                count=1000,
                dtype=7,
                sequence=position,
                id=1,
                flags=int(NcclOpKind.ALL_REDUCE),
            ),
            record(RecordKind.EVENT_RECORD, instance=after, stream=COMMUNICATION),
        ]
    pieces += [
        record(RecordKind.STREAM_WAIT, instance=(number + 1) * 2 * ALL_REDUCES, stream=COMPUTE),
        wait(WaitKind.DEVICE),
    ]
    return b"".join(pieces), ALL_REDUCES * (KERNELS_PER_ALL_REDUCE + 4) + 1


def run_engine(ranks: int) -> float:
    """Items per second."""
    gpu = load_gpu("h100")
    engine = Engine(ranks, gpu.sm_count, gpu.nccl_sm_count, copy_rates(gpu), fill_rate(gpu))
    engine.define_communicator(1, list(range(ranks)))
    for rank in range(ranks):
        engine.feed(rank, beginning(), 0)
        engine.set_duration(rank, 1, KERNEL_NS, 0.7, 0)
    work = [iteration(number) for number in range(ITERATIONS)]
    started_s = time.process_time()
    for cells, _ in work:
        for rank in range(ranks):
            engine.feed(rank, cells, 0)
        while engine.waiting_ranks():
            for ready in engine.advance(None, True).ready:
                engine.finish(ready.operation, [ready.time_ns + ALL_REDUCE_NS] * ranks)
        engine.take_spans()
    return ranks * sum(items for _, items in work) / (time.process_time() - started_s)


def run_solver(flows: int) -> float:
    """Flows per second whose rates are found, between random ports through random spine links."""
    ports, spines = 64, 8
    capacities = [50e9] * (2 * ports) + [200e9] * spines
    chance = random.Random(0)
    paths = [
        (
            chance.randrange(ports),
            ports + chance.randrange(ports),
            2 * ports + chance.randrange(spines),
        )
        for _ in range(flows)
    ]
    started_s = time.process_time()
    max_min_rates(capacities, paths, [float("inf")] * flows)
    return flows / (time.process_time() - started_s)


def run_network(operations: int) -> float:
    """Operations per second: all-to-alls over two nodes, each of another size."""
    environment = simpy.Environment()
    network = Communication(environment, load_cluster("h100"), 2, 8)
    started_s = time.process_time()
    for number in range(operations):
        operation = Operation(
            kind=NcclOpKind.ALL_TO_ALL, count=100_000 + number, dtype=7, members=tuple(range(16))
        )
        environment.run(network.start(operation))
    return operations / (time.process_time() - started_s)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    cases: dict[str, tuple[str, Callable[[], float]]] = {
        f"device engine, {chosen.ranks} ranks": ("items", lambda: run_engine(chosen.ranks)),
        "max-min rates, 240 flows": ("flows", lambda: run_solver(240)),
        "max-min rates, 2,400 flows": ("flows", lambda: run_solver(2400)),
        "network model, all-to-all of 16 ranks": ("operations", lambda: run_network(100)),
    }
    rounds = [{name: run() for name, (_, run) in cases.items()} for _ in range(chosen.rounds)]
    results = Results("The server's parts, per CPU second", ("part", "unit", "per second"))
    for name, (unit, _) in cases.items():
        results.add(name, unit, median(one[name] for one in rounds))
    results.show(chosen.json)


if __name__ == "__main__":
    main()
