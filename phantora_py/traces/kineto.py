"""Traces of PyTorch's profiler (Kineto's Chrome JSON) as nodes of an execution trace.

The host's calls of CUDA are a chain, with the time between them; kernels and copies follow their
calls and what their stream does before. Kernels of NCCL become the collectives that the profiler
tells of. Such traces do not tell which streams wait for which: where a stream was told to wait, it
is taken to wait for what had ended on the others before its next work began.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phantora_py.traces.kineto_collectives import collective_of
from sim_server.chakra.execution_trace_pb2 import COMM_COLL_NODE, COMP_NODE, Node
from sim_server.chakra.files import Trace, Value, attribute
from sim_server.errors import UsageError
from sim_server.files.schema import Fault
from sim_server.records import MarkerKind

NAMES = (".json", ".json.gz")
_CALLS = ("cuda_runtime", "cuda_driver")
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")
_DEVICE_WAITS = ("cudaDeviceSynchronize",)
_STREAM_WAITS = ("cudaStreamWaitEvent", "cuStreamWaitEvent")
_MARKS = {
    "ProfilerStep#": MarkerKind.PROFILER_STEP,
    "Optimizer.step#": MarkerKind.OPTIMIZER_STEP,
}


@dataclass
class Event:
    """Something that lasted; times are in ns."""

    name: str
    kind: str
    thread: Any
    start_ns: int
    end_ns: int
    told: Mapping[str, Any]


@dataclass
class Profile:
    """The file of one rank."""

    path: Path
    rank: int
    ranks: int
    events: list[Event]
    groups: dict[str, list[int]]
    """Ranks of process groups, as far as the file tells them."""
    start_ns: int = field(init=False)
    """When the host made its first call of CUDA."""

    def __post_init__(self) -> None:
        self.start_ns = min(one.start_ns for one in self.events if one.kind in _CALLS)


def read_profiles(folder: Path) -> list[Trace]:
    """The traces of all ranks, in order; none if the folder has no files of the profiler.

    Raises: UsageError if a rank's is missing or damaged, or tells too little of communication.
    """
    profiles: dict[int, Profile] = {}
    for path in sorted(folder.iterdir()):
        if path.name.endswith(NAMES) and (profile := read_profile(path)) is not None:
            if profile.rank in profiles:
                other = profiles[profile.rank].path
                raise UsageError(f"{path} and {other} are both of rank {profile.rank}.")
            profiles[profile.rank] = profile
    if not profiles:
        return []
    ranks = max(one.ranks for one in profiles.values())
    if missing := sorted({*range(ranks)} - set(profiles)):
        raise UsageError(f"{folder} lacks the trace of rank {missing[0]}, of {ranks} ranks.")
    start_ns = min(one.start_ns for one in profiles.values())
    makers = [_Nodes(profiles[rank], start_ns) for rank in range(ranks)]
    traces = [maker.trace() for maker in makers]
    first: dict[str, int] = {}
    for maker, trace in zip(makers, traces, strict=True):
        for group, number in maker.first_numbers.items():
            if first.setdefault(group, number) != number:
                raise UsageError(
                    f"{trace.path} begins with operation {number} of process group {group}, and "
                    f"another rank's file with {first[group]}: profile the same steps on all ranks."
                )
    return traces


def read_profile(path: Path) -> Profile | None:
    """One file; None: it is another kind of JSON. Raises: UsageError."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        told = json.loads(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError, zlib.error, RecursionError) as error:
        raise UsageError(f"{path} is cut short, or no JSON: {error}.") from error
    if not isinstance(told, dict) or "traceEvents" not in told:
        return None
    try:
        base_ns = int(told.get("baseTimeNanoseconds", 0))
        events = sorted(_events(told["traceEvents"], base_ns), key=lambda one: one.start_ns)
        where = told.get("distributedInfo", {})
        rank, ranks = int(where.get("rank", 0)), int(where.get("world_size", 1))
        told_groups = where.get("pg_config") or []
        groups = {str(one["pg_name"]): list(map(int, one["ranks"])) for one in told_groups}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} is damaged: {error!r}.") from error
    if not any(one.kind in _CALLS for one in events):
        raise UsageError(
            f"{path} has no calls of CUDA: profile with ProfilerActivity.CPU and "
            "ProfilerActivity.CUDA."
        )
    return Profile(path, rank, ranks, events, groups)


def _events(rows: Any, base_ns: int) -> Iterator[Event]:
    kinds = (*_CALLS, *_WORK, "user_annotation")
    for row in rows:
        if row.get("ph") != "X" or row.get("cat") not in kinds:
            continue
        start_ns = base_ns + round(float(row["ts"]) * 1000)
        end_ns = start_ns + round(float(row.get("dur", 0)) * 1000)
        told = row.get("args") or {}
        yield Event(str(row["name"]), row["cat"], row.get("tid"), start_ns, end_ns, told)


class _Nodes:
    """Makes the nodes of one rank, in the order of its host."""

    def __init__(self, profile: Profile, start_ns: int) -> None:
        self._profile = profile
        self._clock_ns = start_ns
        """Up to when the host's time is in nodes."""
        self._first_ns: dict[int, int] = {}
        """By stream, the begin of the first work whose call is known."""
        self._nodes: list[Node] = []
        self._host = 0
        self.first_numbers: dict[str, int] = {}
        """By process group, the number of its first operation, where that is told."""
        self._groups: dict[str, Value] = {}
        self._tails: dict[int, tuple[int, int]] = {}
        """By stream, the last node and its end."""
        self._waits = 0
        """How often streams were told to wait."""
        self._waits_before: dict[int, int] = {}
        """By stream, how often at its last launch."""
        self._work: dict[Any, list[Event]] = {}
        self._annotations = [one for one in profile.events if one.kind == "user_annotation"]
        for one in profile.events:
            if one.kind in _WORK:
                self._work.setdefault(one.told.get("correlation"), []).append(one)

    def trace(self) -> Trace:
        """All of it."""
        marks = [(one.end_ns, one) for one in self._annotations if _mark(one.name)]
        calls = [(one.start_ns, one) for one in self._profile.events if one.kind in _CALLS]
        for time_ns, one in sorted([*marks, *calls], key=lambda pair: pair[0]):
            if one.kind not in _CALLS:
                told: dict[str, Value] = {"mark": int(_mark(one.name) or 0), "mark_name": one.name}
                self._call(f"mark: {one.name}", time_ns, told)
            elif one.name in _STREAM_WAITS:
                self._waits += 1
            elif one.told.get("correlation") in self._work:
                self._launch(one)
            elif one.name in _WAITS:
                self._wait(one)
        path, rank = self._profile.path, self._profile.rank
        for lost in (one for many in self._work.values() for one in many):
            stream = int(lost.told.get("stream", 0))
            if stream not in self._first_ns or lost.start_ns <= self._first_ns[stream]:
                continue  # It was launched before the profiler saw calls.
            raise UsageError(
                f"{path} has a kernel without its call, {lost.name[:60]!r}: profile whole steps, "
                "from a step's begin on."
            )
        head: dict[str, Value] = {"rank": rank, "ranks": self._profile.ranks}
        return Trace(path, {**head, **self._groups}, self._nodes)

    # The host

    def _call(self, name: str, end_ns: int, more: Mapping[str, Value] | None = None) -> Node:
        node = self._node(name, max(end_ns - self._clock_ns, 0))
        node.attr.append(attribute("is_cpu_op", True))
        node.attr.extend(attribute(*one) for one in (more or {}).items())
        if self._host:
            node.ctrl_deps.append(self._host)
        self._host = node.id
        self._clock_ns = max(self._clock_ns, end_ns)
        return node

    def _wait(self, call: Event) -> None:
        """For what ended while the host waited; what the call took beside that is host time."""
        awaited = {
            node: end_ns
            for node, end_ns in self._tails.values()
            if call.name in _DEVICE_WAITS or call.start_ns < end_ns <= call.end_ns
        }
        if not awaited:
            return
        self._call("host", call.start_ns)
        self._clock_ns = min(max(self._clock_ns, *awaited.values()), call.end_ns)
        self._call(call.name, call.end_ns).data_deps.extend(sorted(awaited))

    # Devices

    def _launch(self, call: Event) -> None:
        host = self._call(call.name, call.end_ns)
        for work in self._work.pop(call.told.get("correlation")):
            stream = int(work.told.get("stream", 0))
            node = self._node(work.name, work.end_ns - work.start_ns)
            self._first_ns.setdefault(stream, work.start_ns)
            node.ctrl_deps.append(host.id)
            node.data_deps.extend(sorted(self._before(stream, work)))
            node.attr.append(attribute("is_cpu_op", False))
            node.attr.append(attribute("stream", stream))
            if work.kind == "kernel" and "nccl" in work.name.lower():
                self._communicate(node, call, work)
            self._tails[stream] = (node.id, work.end_ns)
            self._waits_before[stream] = self._waits

    def _before(self, stream: int, work: Event) -> set[int]:
        found = {self._tails[stream][0]} if stream in self._tails else set()
        if self._waits > self._waits_before.get(stream, 0):
            found |= {node for node, end_ns in self._tails.values() if end_ns <= work.start_ns}
        return found

    def _communicate(self, node: Node, call: Event, work: Event) -> None:
        """Of the innermost annotation of NCCL that the call lies in, where the kernel tells not."""
        around = [
            one
            for one in self._annotations
            if one.name.startswith("nccl:")
            and one.thread == call.thread
            and one.start_ns <= call.start_ns <= one.end_ns
        ]
        told = {"name": around[-1].name, **around[-1].told} if around else {}
        try:
            profile = self._profile
            group, ranks, attributes = collective_of(work.told, told, profile.ranks, profile.groups)
        except Fault as fault:
            raise UsageError(
                f"{self._profile.path}: {work.name[:60]!r}: {fault}. Profile with "
                "record_shapes=True."
            ) from fault
        node.type = COMM_COLL_NODE
        node.attr.extend(attribute(*one) for one in attributes.items())
        self._groups[f"process_group/{group}"] = ranks
        if type(work.told.get("Seq")) is int:
            self.first_numbers.setdefault(group, work.told["Seq"])

    def _node(self, name: str, duration_ns: int) -> Node:
        node = Node(id=len(self._nodes) + 1, name=name, type=COMP_NODE)
        node.duration_micros = duration_ns // 1000
        node.attr.append(attribute("duration_ns", duration_ns))
        self._nodes.append(node)
        return node


def _mark(name: str) -> MarkerKind | None:
    return next((kind for begin, kind in _MARKS.items() if name.startswith(begin)), None)
