"""Replays one rank of a benchmark with PyTorch: on a GPU, a simulated one, or a CPU."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from phantora_py.rank.markers import ITERATION, mark
from phantora_py.replay.container import Benchmark
from phantora_py.replay.operators import added, parsed, places_agree, resolved
from sim_server.errors import UsageError

_SEED = 0
_WORD_BYTES = 4
DTYPES = {
    **{"float": "float32", "double": "float64", "long int": "int64", "int": "int32"},
    **{"short int": "int16", "signed char": "int8", "unsigned char": "uint8", "bool": "bool"},
    **{"short": "int16", "long": "int64", "c10::complex<float>": "complex64"},
    **{"c10::complex<double>": "complex128", "c10::Half": "float16", "c10::BFloat16": "bfloat16"},
    **{"c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2"},
    **{"unsigned short": "uint16", "unsigned int": "uint32", "unsigned long": "uint64"},
}
_OF_GPUS = ("aten::_pin_memory",)
_GROUP = "__torch__.torch.classes.c10d.ProcessGroup"
STREAM = "Stream"
_REDUCE = "__torch__.torch.classes.c10d.ReduceOp"


class Player:
    """One rank. `device`: what stands for the GPU of the trace, "cuda:N" or "cpu"."""

    def __init__(self, benchmark: Benchmark, rank: int, device: str) -> None:
        """Makes the process groups: `benchmark` has this rank alone, or all.

        Raises: UsageError if the types of tensors are not this PyTorch's.
        """
        import torch  # noqa: PLC0415

        self.substituted: Counter[str] = Counter()
        """Operators that were replaced by proxies, with how often."""
        self._torch = torch
        self._rank = rank
        self._device = device
        self._is_gpu = device.startswith("cuda")
        told = benchmark.ranks[rank if len(benchmark.ranks) > 1 else 0]
        self._tensors, self._versions = told["tensors"], told["versions"]
        self._events, self._schemas = told["events"], told["schemas"]
        self._head = benchmark.head
        self._groups: dict[str, Any] = {}
        self._storages: dict[int, Any] = {}
        self._works: dict[int, Any] = {}
        """Of storages, what is to end before they are used."""
        self._streams: dict[int, Any] = {}
        self._currents: dict[int, Any] = {}
        self._main = next((one["thread"] for one in self._events if "thread" in one), 0)
        """The program's thread. Others, as autograd's, work on its stream until they set one."""
        self._marks: dict[int, Any] = {}
        self._graphs: dict[int, Any] = {}
        self._batch: list[Mapping[str, Any]] = []
        """Transfers that NCCL is to launch together, while they come."""
        self._batch_size = 0
        for row in told["tensors"]:
            if row[2] not in DTYPES:
                raise UsageError(f"the benchmark has tensors of {row[2]}, which is not known.")

    def run(self) -> None:
        """Replays everything. Raises: UsageError if an operator fails on a CPU and GPU alike."""
        torch = self._torch
        torch.manual_seed(_SEED)
        self._make_groups()
        self._fill_integers()
        with torch.no_grad():
            for number, event in enumerate(self._events):
                try:
                    self._play(event)
                except (RuntimeError, TypeError, ValueError, IndexError) as error:
                    raise UsageError(
                        f"event {number} of rank {self._rank}, {self._name(event)}, cannot be "
                        f"replayed: {str(error).splitlines()[0]}"
                    ) from error
                for version in event.get("free", ()):
                    self._await(version)
                    self._storages.pop(version, None)
        for version in list(self._works):
            self._await(version)
        if self._is_gpu:
            torch.cuda.synchronize()

    def _name(self, event: Mapping[str, Any]) -> str:
        if event["do"] == "op":
            return str(self._schemas[event["schema"]].partition("(")[0])
        return str(event.get("name", event["do"]))

    # Groups and tensors

    def _make_groups(self) -> None:
        dist = self._torch.distributed
        used = {event["group"] for event in self._events if event.get("group") is not None}
        ranks = self._head["ranks"]
        if ranks == 1 and not used:
            return
        dist.init_process_group("cpu:gloo,cuda:nccl" if self._is_gpu else "gloo")
        if dist.get_world_size() != ranks:
            raise UsageError(
                f"the benchmark has {ranks} ranks, and {dist.get_world_size()} were started."
            )
        for name, members in self._head["groups"].items():
            self._groups[name] = dist.group.WORLD if name == "0" else dist.new_group(members)

    def _fill_integers(self) -> None:
        """Before anything is timed: integers from outside have values within their bounds."""
        torch = self._torch
        for number, row in enumerate(self._versions):
            if "external" in row and DTYPES[row["dtype"]].startswith(("int", "uint")):
                low, high = row["external"].get("range", (0, 0))
                dtype = getattr(torch, DTYPES[row["dtype"]])
                count = math.ceil(row["bytes"] / dtype.itemsize)
                values = torch.randint(low, high + 1, (count,), dtype=torch.int64).to(dtype)
                self._storages[number] = values.to(self._place(row["device"])).untyped_storage()

    def _place(self, device: str) -> str:
        return self._device if device == "cuda" else device

    def _storage(self, version: int) -> Any:
        found = self._storages.get(version)
        if found is None:
            row = self._versions[version]
            made = self._torch.empty(
                row["bytes"], dtype=self._torch.uint8, device=self._place(row["device"])
            )
            if not self._is_gpu:
                made.zero_()
            found = self._storages[version] = made.untyped_storage()
        return found

    def _tensor(self, number: int) -> Any:
        version, offset, dtype, shape, strides = self._tensors[number]
        self._await(version)
        storage = self._storage(version)
        made = self._torch.empty(
            0, dtype=getattr(self._torch, DTYPES[dtype]), device=storage.device
        )
        return made.set_(storage, offset, shape, strides)

    def _await(self, version: int) -> None:
        work = self._works.pop(version, None)
        if work is not None:
            work.wait()

    # Events

    def _play(self, event: dict[str, Any]) -> None:
        if event["do"] == "mark":
            mark(event.get("kind", ITERATION), event["name"])
        elif event["do"] == "stream":
            if self._is_gpu:
                self._stream_call(event)
        elif self._is_gpu:
            with self._torch.cuda.stream(self._current(event["thread"])):
                self._operator(event)
        else:
            self._operator(event)

    def _current(self, thread: int) -> Any:
        return self._currents.get(thread, self._currents.get(self._main))

    def _operator(self, event: dict[str, Any]) -> None:
        if event["do"] == "proxy":
            self._proxy(event)
            return
        schema = self._schemas[event["schema"]]
        operator = resolved(schema)
        is_missing = not self._is_gpu and self._name(event) in _OF_GPUS
        if operator is None or is_missing:
            self.substituted[self._name(event)] += 1
            self._proxy(event)
            return
        positional, named = self._arguments(schema, event, places_agree(operator, parsed(schema)))
        named |= added(operator, parsed(schema)) or {}
        if "batch" in event and self._is_gpu:
            self._batch, self._batch_size = [], event["batch"]
            self._groups[event["group"]]._start_coalescing(self._torch.device(self._device))
        try:
            result = operator(*positional, **named)
        except NotImplementedError:  # it is for another device
            self.substituted[self._name(event)] += 1
            self._proxy(event)
            return
        self._bind(event, list(self._made(result)))
        self._keep_work(event, result)

    def _arguments(
        self, schema: str, event: dict[str, Any], by_place: bool
    ) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for argument, value in zip(parsed(schema).arguments, event["args"], strict=False):
            told = self._decoded(value, str(argument.type), event, argument.name)
            if argument.kwarg_only or not by_place:
                named[argument.name] = told
            else:
                positional.append(told)
        return positional, named

    def _decoded(self, value: Any, kind: str, event: Mapping[str, Any], name: str) -> Any:
        if isinstance(value, list):
            return [self._decoded(one, "", event, "") for one in value]
        if isinstance(value, dict):
            return self._number(value["tensor"], kind) or self._tensor(value["tensor"])
        if kind in (_GROUP, _REDUCE, STREAM):
            return self._object(kind, event)
        if isinstance(value, str):
            return self._text(value, kind, event, name)
        if name == "device_index" and self._is_gpu:
            return self._torch.device(self._device).index
        # Pinned memory is of GPUs.
        return value and self._is_gpu if name == "pin_memory" else value

    def _text(self, value: str, kind: str, event: Mapping[str, Any], name: str) -> Any:
        """A text, or what the trace has one for."""
        if name == "group_name":
            return self._groups[event.get("group", value)].group_name
        if "Device" in kind:
            return self._torch.device(self._place(value.partition(":")[0]))
        if "Generator" in kind:
            return None  # the device's own: what is drawn is not replayed
        return value

    def _object(self, kind: str, event: Mapping[str, Any]) -> Any:
        """What the trace names only."""
        if kind == STREAM:
            return self._torch.cuda.current_stream() if self._is_gpu else None
        if kind == _GROUP:
            return self._groups[event["group"]].boxed()
        # The trace does not tell which reduction: sums take the same time.
        reduce = self._torch.distributed.ReduceOp
        return reduce(reduce.SUM).boxed()

    def _number(self, tensor: int, kind: str) -> float | None:
        """A number of the program's, which the trace has as a tensor from nowhere: it decides no
        types of results. Which number it was is not told."""
        version, _, dtype, shape, _ = self._tensors[tensor]
        row = self._versions[version]
        is_number = kind == "Tensor" and not shape and row["device"] == "cpu"
        if not is_number or "external" not in row:
            return None
        return {"double": 1.0, "long int": 1}.get(dtype)

    def _made(self, result: Any) -> Iterator[Any]:
        if isinstance(result, self._torch.Tensor):
            yield result
        elif isinstance(result, list | tuple):
            for one in result:
                yield from self._made(one)

    def _bind(self, event: dict[str, Any], made: list[Any]) -> None:
        """What was made is what later events use."""
        numbers = list(_numbers(event["outs"]))
        if len(numbers) != len(made):
            return  # some that are not defined: they are allocated when they are used
        for number, tensor in zip(numbers, made, strict=True):
            version = self._tensors[number][0]
            row = self._versions[version]
            fits = tensor.untyped_storage().nbytes() >= row["bytes"]
            if version not in self._storages and fits:
                self._storages[version] = tensor.untyped_storage()

    def _keep_work(self, event: Mapping[str, Any], result: Any) -> None:
        """A collective goes on until one of its tensors is used."""
        dist = self._torch.distributed
        if self._batch_size:
            self._take_into_batch(event)
            return
        told = result[-1] if isinstance(result, tuple) else result
        if not isinstance(told, self._torch.ScriptObject):
            return
        work = dist.Work.unbox(told)
        schema = self._schemas[event["schema"]]
        arguments = [one.name for one in parsed(schema).arguments]
        place = arguments.index("async_op") if "async_op" in arguments else -1
        # Of sends and receives only the trace knows whether they were waited for.
        is_async = place < 0 or (place < len(event["args"]) and bool(event["args"][place]))
        if not is_async or event.get("waits"):
            work.wait()
        else:
            self._keep(work, [event])

    def _keep(self, work: Any, events: list[Mapping[str, Any]]) -> None:
        for event in events:
            for number in _numbers([event["args"], event["outs"]]):
                self._works[self._tensors[number][0]] = work

    def _take_into_batch(self, event: Mapping[str, Any]) -> None:
        """The last one launches them all."""
        self._batch.append(event)
        if len(self._batch) < self._batch_size:
            return
        self._batch_size = 0
        group = self._groups[event["group"]]
        work = group._end_coalescing(self._torch.device(self._device))
        if event.get("waits"):
            work.wait()
        else:
            self._keep(work, self._batch)

    def _proxy(self, event: dict[str, Any]) -> None:
        """As many kernels as the original had, which move as many bytes as its tensors have."""
        tensors = [self._tensor(number) for number in _numbers([event["args"], event["outs"]])]
        launches = event.get("launches", 1)
        if not tensors or not launches:
            return
        # Words are read and written.
        moved_bytes = sum(one.numel() * one.itemsize for one in tensors) // 2
        words = max(moved_bytes // launches // _WORD_BYTES, 1)
        memory = self._words_of(tensors, launches * words)
        for number in range(launches):
            memory[number * words : (number + 1) * words].add_(0)

    def _words_of(self, tensors: list[Any], count: int) -> Any:
        """So many words of the largest tensor's memory, or of memory that is free afterwards."""
        storage = max((one.untyped_storage() for one in tensors), key=lambda one: one.nbytes())
        if storage.nbytes() < count * _WORD_BYTES:
            return self._torch.empty(count, dtype=self._torch.int32, device=storage.device)
        words = self._torch.empty(0, dtype=self._torch.int32, device=storage.device)
        return words.set_(storage, 0, (count,), (1,))

    def _stream_call(self, event: dict[str, Any]) -> None:
        call, cuda = event["call"], self._torch.cuda
        current = self._current(event["thread"]) or cuda.default_stream()
        told = event.get("stream")
        stream = current if told is None else self._stream(told)
        if call == "set":
            self._currents[event["thread"]] = stream
        elif call == "record":
            mark = self._marks.setdefault(event["event"], cuda.Event())
            mark.record(stream)
        elif call == "wait":
            if event["event"] in self._marks:
                self._marks[event["event"]].wait(stream)
        elif call == "sync_event":
            if event["event"] in self._marks:
                self._marks[event["event"]].synchronize()
        elif call == "sync_stream":
            stream.synchronize()
        elif call == "sync":
            cuda.synchronize()
        elif call in ("capture", "captured", "replay"):
            with cuda.stream(current):
                self._graph_call(call, event["graph"])
        else:
            raise ValueError(f"a call {call} of streams is not known")

    def _graph_call(self, call: str, number: int) -> None:
        """What is captured is called while the capture goes on, as in the program."""
        if call == "replay":
            if number in self._graphs:
                self._graphs[number].replay()
            return
        for version in list(self._works):
            self._await(version)
        if call == "capture":
            self._graphs[number] = self._torch.cuda.CUDAGraph()
            self._graphs[number].capture_begin()
        else:
            self._graphs[number].capture_end()

    def _stream(self, number: int) -> Any:
        if number == 0:
            return self._torch.cuda.default_stream()
        return self._streams.setdefault(number, self._torch.cuda.Stream())


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, dict):
        yield value["tensor"]
