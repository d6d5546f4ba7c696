"""When collectives are waited for at once, from the streams of the traced run.

Traces of older PyTorch do not tell it.
"""

from __future__ import annotations

from collections.abc import Iterator

from phantora_py.data import RunData
from phantora_py.replay.container import Benchmark
from phantora_py.replay.operators import COMMUNICATION
from phantora_py.traces.recorded_steps import recorded_steps
from sim_server.errors import UsageError
from sim_server.records import RecordKind

_WORK = (RecordKind.KERNEL, RecordKind.COPY, RecordKind.FILL, RecordKind.NCCL_LAUNCH)


def tells_waits(benchmark: Benchmark) -> bool:
    """Whether the traces themselves told when collectives were waited for."""
    return any("waits" in event for told in benchmark.ranks for event in told["events"])


def add_waits(benchmark: Benchmark, data: RunData) -> None:
    """Has collectives waited for at once where the traced run's streams did so, if the traces do
    not tell: they had no nodes of waits.

    Raises: UsageError if the run is another than the traces'.
    """
    if data.ranks != benchmark.head["ranks"]:
        raise UsageError(
            f"{data.path} has {data.ranks} ranks, and the traces have {benchmark.head['ranks']}."
        )
    if tells_waits(benchmark):
        return
    for rank, told in enumerate(benchmark.ranks):
        called = [
            event
            for event in told["events"]
            if event["do"] == "op" and _is_collective(told["schemas"][event["schema"]])
        ]
        waited = list(_waited_at_once(data, rank))
        if len(waited) != len(called):
            raise UsageError(
                f"{data.path}: rank {rank} launched {len(waited)} collectives, and its trace has "
                f"{len(called)}: they are of different runs, or of one whose collectives are not "
                "all launched alone. Build without --run."
            )
        for event, is_waited in zip(called, waited, strict=True):
            event["waits"] = is_waited


def _is_collective(schema: str) -> bool:
    space, _, name = schema.partition("(")[0].partition("::")
    return space in COMMUNICATION and name != "wait_tensor"


def _waited_at_once(data: RunData, rank: int) -> Iterator[bool]:
    """Of each launch of NCCL, whether another stream waits for its end before anything else."""
    steps = list(recorded_steps(data, rank))
    for number, step in enumerate(steps):
        if step.kind is not RecordKind.NCCL_LAUNCH:
            continue
        events: set[int] = set()
        is_waited = False
        for later in steps[number + 1 :]:
            if later.kind in _WORK:
                break
            if later.kind is RecordKind.EVENT_RECORD and later.stream == step.stream:
                events.add(later.args[0])
            if later.kind is RecordKind.STREAM_WAIT and later.args[0] in events:
                is_waited = True
        yield is_waited
