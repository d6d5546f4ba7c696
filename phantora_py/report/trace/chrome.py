"""A trace as JSON, as PyTorch's profiler writes it.

The format: Google's "Trace Event Format", with the profiler's fields. Times there are microseconds;
three digits after the point keep our nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from phantora_py.data import RunData
from phantora_py.report.trace.events import Arrow, Count, Item, Process, Slice, Thread
from phantora_py.report.trace.names import origin_of

Event = dict[str, Any]


def write_events(
    file: TextIO, data: RunData, rank: int | None, items: Iterable[Item | Arrow]
) -> None:
    """Write the trace of a rank, or of several (None).

    Line by line: Holistic Trace Analysis looks for the rank in the first lines.
    """
    encode = json.JSONEncoder().encode
    file.write("{\n")
    head = _head(data, rank)
    file.writelines(f"{encode(key)}: {encode(value)},\n" for key, value in head.items())
    file.write('"traceEvents": [\n')
    separator = ""
    for item in items:
        for event in _events(item):
            file.write(separator + encode(event))
            separator = ",\n"
    file.write("\n]}\n")


def _head(data: RunData, rank: int | None) -> dict[str, Any]:
    """What PyTorch's profiler says of a run, and what we do."""
    properties = data.settings["gpu"]["properties"]
    distributed = {"backend": "nccl", "world_size": data.ranks}
    return {
        "schemaVersion": 1,
        "distributedInfo": distributed if rank is None else {**distributed, "rank": rank},
        "deviceProperties": [
            {
                "id": 0,
                "name": data.settings["gpu"].get("name", ""),
                "totalGlobalMem": properties["totalGlobalMem"],
            }
        ],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "phantora": origin_of(data),
    }


def _events(item: Item | Arrow) -> Iterator[Event]:
    if isinstance(item, Slice):
        yield from _slice_events(item)
    elif isinstance(item, Count):
        counter = item.counter
        yield {
            **{"ph": "C", "name": counter.name, "pid": counter.process.number},
            **{"ts": item.time_ns / 1e3, "args": {counter.quantity: item.value}},
        }
    elif isinstance(item, Arrow):
        yield {
            **{"ph": item.phase, "bp": "e", "cat": "collective", "name": item.kind},
            **{"id": item.operation + 1, "ts": item.time_ns / 1e3, **_place(item.thread)},
        }
    elif isinstance(item, Thread):
        yield _metadata(item.process, item.number, "thread_name", {"name": item.name})
        yield _metadata(item.process, item.number, "thread_sort_index", {"sort_index": item.number})
    else:
        yield _metadata(item, 0, "process_name", {"name": item.name})
        yield _metadata(item, 0, "process_sort_index", {"sort_index": item.place})


def _slice_events(one: Slice) -> Iterator[Event]:
    label = one.label
    arguments: dict[str, Any] = {}
    if one.thread.device_stream is not None:
        device, stream = one.thread.device_stream
        arguments |= {"device": device, "stream": stream}
    arguments |= label.arguments
    if one.waited_ns is not None:
        arguments["waited for the last rank (us)"] = one.waited_ns / 1e3
    if one.correlation is not None:
        arguments["correlation"] = one.correlation
    event = {
        **{"ph": "X", "cat": label.category, "name": label.name, **_place(one.thread)},
        **{"ts": one.begin_ns / 1e3, "dur": (one.end_ns - one.begin_ns) / 1e3},
    }
    yield {**event, "args": arguments} if arguments else event
    if one.correlation is not None:
        # From a call to what it issued, as the profiler draws it.
        yield {
            **{"ph": "s" if label.is_call else "f", "bp": "e", "cat": "ac2g", "name": "ac2g"},
            **{"id": one.correlation, "ts": one.begin_ns / 1e3, **_place(one.thread)},
        }


def _place(thread: Thread) -> dict[str, int]:
    return {"pid": thread.process.number, "tid": thread.number}


def _metadata(process: Process, thread: int, name: str, arguments: Mapping[str, Any]) -> Event:
    head = {"ph": "M", "ts": 0, "name": name, "pid": process.number}
    return {**head, "tid": thread, "args": arguments}
