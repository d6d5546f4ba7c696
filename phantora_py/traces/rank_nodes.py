"""A rank's records as nodes of a Chakra trace.

The host is a chain: what it does before a call is the length of the call's node, and a wait, which
takes no time itself, comes after a node of its own for that. What a call launches depends on it, on
what its stream does before, and on the sources of the events that the stream waits for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from phantora_py.data import RunData
from phantora_py.traces.device_order import DeviceOrder, Stream, nodes_of
from phantora_py.traces.groups import joining_of
from phantora_py.traces.operations import ExchangeSizes, Operation, Ran, operation_nodes
from phantora_py.traces.recorded_steps import RecordedStep, signature_of
from sim_server.chakra.execution_trace_pb2 import COMP_NODE, Node
from sim_server.chakra.files import Value, attribute
from sim_server.files.schema import Fault
from sim_server.log.history import HOST_WAIT_SPAN
from sim_server.records import (
    CopyFlags,
    CopyKind,
    MarkerKind,
    RecordKind,
    StreamFlags,
    WaitKind,
    named_args,
)
from sim_server.records.announced import signed
from sim_server.records.call_names import COPY_NAMES, WAIT_NAMES

# That wait for device work. Questions: one that is answered "done" is a wait.
_WAITS = {WaitKind.STREAM, WaitKind.EVENT, WaitKind.DEVICE, WaitKind.LAUNCH_QUEUE}
_QUERIES = {WaitKind.QUERY_STREAM, WaitKind.QUERY_EVENT}
_LAUNCHES = {
    RecordKind.KERNEL: "cudaLaunchKernel",
    RecordKind.COPY: "cudaMemcpyAsync",
    RecordKind.FILL: "cudaMemsetAsync",
    RecordKind.HOST_FUNCTION: "cudaLaunchHostFunc",
}


class RankNodes:
    """The nodes of one rank; `metadata` has what several of them refer to."""

    def __init__(
        self,
        data: RunData,
        rank: int,
        made: Sequence[int],
        members: Mapping[int, Sequence[int]],
        sizes: ExchangeSizes,
    ) -> None:
        """`made`: the communicators that its joinings gave it. `members`: of each."""
        self.metadata: dict[str, Value] = {}
        self._data = data
        self.rank = rank
        self._made = iter(made)
        self._members = members
        self._sizes = sizes
        self._exchanges: Counter[int] = Counter()
        """By communicator, all-to-alls with splits."""
        self._order = DeviceOrder()
        self._queues = _queues(data.spans_of(rank))
        self._signatures: dict[int, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        self._next = 1
        self._host = 0
        """The host's last node."""
        self._gap_ns = 0
        """Host time that is in no node yet."""
        self._awaited: set[int] = set()
        """Nodes that the host knows to be done."""
        self._pending: list[RecordedStep] = []
        """An NCCL launch whose operations are still to come."""

    def nodes(self, steps: Sequence[RecordedStep]) -> Iterator[Node]:
        """In the order in which the host came to them. Raises: Fault."""
        for step in steps:
            self._gap_ns += step.gap_ns
            yield from self._take(step)

    def _take(self, step: RecordedStep) -> Iterator[Node]:
        stream = self._order.stream(step.device, step.stream)
        kind = step.kind
        if kind is RecordKind.SIGNATURE:
            self._signatures[step.id] = signature_of(step)
        elif kind is RecordKind.STREAM_CREATE:
            self._order.create(stream, not step.flags & StreamFlags.NON_BLOCKING)
        elif kind is RecordKind.EVENT_RECORD:
            self._order.record(step.args[0], stream)
        elif kind is RecordKind.STREAM_WAIT:
            self._order.wait(step.args[0], stream)
        elif kind in _LAUNCHES:
            yield from self._launch(step, stream)
        elif kind in (RecordKind.NCCL_LAUNCH, RecordKind.NCCL_OP):
            yield from self._communicate(step, stream)
        elif kind is RecordKind.WAIT:
            yield from self._wait(step, stream)
        elif kind is RecordKind.MARKER:
            yield from self._mark(step)
        elif kind is RecordKind.EXIT:
            yield self._call("exit", step.time_ns, {"exit_code": signed(step.args[0])})

    # The host

    def _call(self, name: str, time_ns: int, more: Mapping[str, Value] | None = None) -> Node:
        """The host's next node: what it did up to `time_ns`."""
        node = self._node(name, time_ns - self._gap_ns, time_ns)
        node.attr.append(attribute("is_cpu_op", True))
        node.attr.extend(attribute(*one) for one in (more or {}).items())
        if self._host:
            node.ctrl_deps.append(self._host)
        self._host, self._gap_ns = node.id, 0
        return node

    def _wait(self, step: RecordedStep, stream: Stream) -> Iterator[Node]:
        kind = WaitKind(step.id)
        if (joining := joining_of(step)) is not None:
            yield from self._work_before(step)
            self._gap_ns = step.done_ns - step.time_ns
            args = named_args(RecordKind.WAIT, step.args, kind)
            told: dict[str, Value] = {"pg_name": str(next(self._made))}
            if kind is WaitKind.COMM_SPLIT:
                told |= {"split_of": str(args["parent"]), "split_index": args["index"]}
                told |= {"color": joining.colour, "key": joining.position}
            yield self._call(WAIT_NAMES[kind], step.done_ns, told)
        elif kind in (WaitKind.RESUME, WaitKind.OUTSIDE) and step.done_ns > step.time_ns:
            yield from self._work_before(step)
            self._gap_ns = step.done_ns - step.time_ns
            yield self._call("wait outside the GPU", step.done_ns)
        elif kind in _WAITS or (kind in _QUERIES and step.is_done):
            awaited = self._awaited_by(kind, step, stream)
            if awaited:
                yield from self._work_before(step)
                node = self._call(WAIT_NAMES[kind], step.time_ns)
                node.data_deps.extend(awaited)
                node.attr.append(attribute("waited_ns", step.done_ns - step.time_ns))
                self._awaited.update(awaited)
                yield node
            elif step.done_ns > step.time_ns:
                raise Fault(f"{WAIT_NAMES[kind]} waited, and nothing was under way")

    def _work_before(self, step: RecordedStep) -> Iterator[Node]:
        if self._gap_ns:
            yield self._call("host", step.time_ns)

    def _awaited_by(self, kind: WaitKind, step: RecordedStep, stream: Stream) -> list[int]:
        """What the host waits for, without what it has waited for before."""
        if kind in (WaitKind.STREAM, WaitKind.QUERY_STREAM):
            tails = self._order.work_of(stream)
        elif kind is WaitKind.DEVICE:
            tails = self._order.work_of_device(step.device)
        else:
            tails = self._order.event(step.args[0])
        return [node for node in nodes_of(tails) if node not in self._awaited]

    def _mark(self, step: RecordedStep) -> Iterator[Node]:
        # Of a line of the program only a number is told, not which it is.
        name = step.payload.decode(errors="replace") or f"line {step.site}"
        kind = MarkerKind(step.id)
        told: dict[str, Value] = {"mark": int(kind), "mark_name": name}
        yield self._call(f"mark: {kind.name.lower()}", step.time_ns, told)

    # Devices

    def _launch(self, step: RecordedStep, stream: Stream) -> Iterator[Node]:
        call = self._call(_LAUNCHES[step.kind], step.time_ns)
        yield call
        ran = None
        if step.kind is not RecordKind.HOST_FUNCTION:
            ran = next(self._queues.get(stream, iter(())), None)
        name, more = self._work(step, ran)
        node = self._on_device(name, step.time_ns, ran, stream)
        node.ctrl_deps.append(call.id)
        node.data_deps.extend(nodes_of(self._order.before(stream)))
        node.attr.extend(attribute(*one) for one in more.items())
        self._order.put(stream, [node.id])
        yield node

    def _work(self, step: RecordedStep, ran: Ran | None) -> tuple[str, dict[str, Value]]:
        """What is launched: its name, and what a simulation needs to know."""
        if step.kind is RecordKind.HOST_FUNCTION:
            return "host function", {"host_function": True}
        if step.kind is RecordKind.FILL:
            return "Memset (Device)", {"fill_bytes": step.args[0]}
        if step.kind is RecordKind.COPY:
            kind = CopyKind(step.id)
            known: dict[str, Value] = {"copy": kind.name.lower(), "copy_bytes": step.args[0]}
            return COPY_NAMES[kind], known | (
                {"pageable": True} if step.flags & CopyFlags.PAGEABLE else {}
            )
        signature = self._signatures.get(step.id)
        if signature is None:
            raise Fault(f"a kernel has the signature {step.id}, which was not announced")
        return self._kernel(signature, ran)

    def _kernel(
        self, signature: Mapping[str, Any], ran: Ran | None
    ) -> tuple[str, dict[str, Value]]:
        text = json.dumps(signature, sort_keys=True)
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self._numbers) + 1
            self.metadata[f"signature/{known}"] = text
        more: dict[str, Value] = {"signature": known}
        if ran is None:
            return str(signature.get("name") or signature["kind"]), more
        timing = self._data.timings[ran.id]
        kept = ("duration_ns", "tier", "interval", "interval_source")
        told = {name: timing[name] for name in kept if name in timing}
        self.metadata[f"timing/{known}"] = json.dumps(told, sort_keys=True)
        if "flops" in timing and timing["flops"] is not None:
            more["num_ops"] = int(timing["flops"])
        return str(timing["name"]), more

    def _communicate(self, step: RecordedStep, stream: Stream) -> Iterator[Node]:
        """The nodes of a launch, once all its operations have come."""
        self._pending.append(step)
        launch, *operations = self._pending
        if len(operations) < launch.args[0]:
            return
        self._pending = []
        stream = self._order.stream(launch.device, launch.stream)
        call = self._call("ncclLaunch", launch.time_ns)
        yield call
        queue = self._queues.get(stream, iter(()))
        ran = [next(queue, None) for _ in operations]
        before = nodes_of(self._order.before(stream))
        made = []
        told = operation_nodes(
            self.rank, self._members, [Operation.of(one) for one in operations], ran
        )
        for one in told:
            if "in_split_size" in one.attributes:
                group = operations[0].id
                one.attributes["comm_size"] = self._sizes.of(group, self._exchanges[group])
                self._exchanges[group] += 1
            node = self._on_device(one.name, launch.time_ns, one.ran, stream)
            node.type = one.type
            node.ctrl_deps.append(call.id)
            node.data_deps.extend(before)
            node.attr.extend(attribute(*pair) for pair in one.attributes.items())
            made.append(node)
        if len(made) > 1:
            for node in made:
                node.attr.append(attribute("launch", made[0].id))
        self._order.put(stream, [node.id for node in made])
        yield from made

    def _on_device(self, name: str, issue_ns: int, ran: Ran | None, stream: Stream) -> Node:
        times = (issue_ns, issue_ns) if ran is None else (ran.start_ns, ran.end_ns)
        node = self._node(name, *times)
        node.attr.append(attribute("is_cpu_op", False))
        node.attr.append(attribute("stream", stream[1]))
        if stream[0]:
            node.attr.append(attribute("device", stream[0]))
        return node

    def _node(self, name: str, start_ns: int, end_ns: int) -> Node:
        """Times in whole microseconds, whose differences add up, and exactly as attributes."""
        start_us = start_ns // 1000
        node = Node(id=self._next, name=name, type=COMP_NODE, start_time_micros=start_us)
        node.duration_micros = end_ns // 1000 - start_us
        node.attr.append(attribute("start_ns", start_ns))
        node.attr.append(attribute("duration_ns", end_ns - start_ns))
        self._next += 1
        return node


def _queues(spans: Any) -> dict[Stream, Iterator[Ran]]:
    """What ran on each stream, one after the other."""
    rows = spans[spans["kind"] != HOST_WAIT_SPAN]
    rows = rows[np.lexsort([rows["end_ns"], rows["start_ns"]])]
    queues: dict[Stream, list[Ran]] = {}
    fields = [rows[name].tolist() for name in ("device", "stream", "start_ns", "end_ns", "id")]
    for device, stream, *ran in zip(*fields, strict=True):
        queues.setdefault((device, stream), []).append(Ran(*ran))
    return {stream: iter(queue) for stream, queue in queues.items()}
