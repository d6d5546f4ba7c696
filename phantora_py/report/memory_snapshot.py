"""Memory at its peak as a snapshot of PyTorch's, which pytorch.org/memory_viz opens.

The format is what `torch.cuda.memory._snapshot` returns, as pickle. Source: its documentation
(docs.pytorch.org/docs/stable/torch_cuda_memory.html) and what torch/cuda/_memory_viz.py reads.
Segments are those that the program had from the driver at that time, and the trace has what they
held, in the order in which it was taken. In the place of Python frames stand the module, the phase
and the kind.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phantora_py.data import RunData
from phantora_py.report.memory import live_at
from phantora_py.report.module_memory import HeldBlock, HeldMemory, held_memory
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output, write_file
from sim_server.records import MemoryKind

_OPTION = "--memory-snapshot"
# PyTorch takes segments of so many bytes for small tensors (c10/core/AllocatorConfig.h).
_SMALL_BYTES = 2 << 20
# Of pickle: that of PyTorch's own snapshots can be read by all of its releases.
_PROTOCOL = 4


def write_snapshot(data: RunData, path: Path) -> int:
    """Returns its size in bytes. Raises: UsageError if the file does not have what it needs, or
    `path` cannot be written.
    """
    require_output(path, _OPTION, [data.path])
    memory = held_memory(data)
    if memory is None:
        raise UsageError(
            f"{_OPTION}: {data.path} does not say what its memory held; run the program with "
            "`phantora run --modules`."
        )
    content = pickle.dumps(snapshot(data, memory), protocol=_PROTOCOL)
    write_file(path, content, _OPTION)
    return len(content)


def snapshot(data: RunData, memory: HeldMemory) -> dict[str, Any]:
    """What a pickle holds."""
    blocks = sorted(memory.blocks, key=lambda block: block.address)
    segments = list(_segments(data, memory, blocks))
    taken = [
        _event("alloc", block.address, block.size_bytes, block.begin_ns, _frames(block))
        for block in memory.blocks
    ]
    reserved = [
        _event("segment_alloc", one["address"], one["total_size"], one.pop("begin_ns"), [])
        for one in segments
    ]
    events = sorted([*reserved, *taken], key=lambda one: one["time_us"])
    traces: list[list[dict[str, Any]]] = [[] for _ in range(memory.device + 1)]
    traces[memory.device] = events
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {},
        "external_annotations": [],
    }


def _segments(
    data: RunData, memory: HeldMemory, blocks: list[HeldBlock]
) -> Iterator[dict[str, Any]]:
    """From the lowest address; what lies in one that the driver gave in parts is one segment."""
    last_ns = max(block.begin_ns for block in blocks)
    parts = [
        (one.pointer, one.pointer + one.size_bytes, one.time_ns)
        for one in live_at(data, memory.rank, memory.device, last_ns)
        if one.kind == MemoryKind.DEVICE and one.pointer
    ]
    # What the driver's calls do not explain lies in a segment of its own.
    parts += [
        (one.address, one.address + one.size_bytes, one.begin_ns)
        for one in blocks
        if not any(begin <= one.address < end for begin, end, _ in parts)
    ]
    parts.sort()
    waiting = blocks[::-1]
    at = 0
    while at < len(parts):
        begin, end, begin_ns = parts[at]
        at += 1
        own: list[HeldBlock] = []
        while waiting and waiting[-1].address < end:
            own.append(waiting.pop())
            # Expandable segments grow by parts, and a block may lie in several.
            while own[-1].address + own[-1].size_bytes > end and at < len(parts):
                end = parts[at][1]
                at += 1
        yield _segment(memory.device, begin, end, begin_ns, own)


def _segment(
    device: int, begin: int, end: int, begin_ns: int, own: list[HeldBlock]
) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    at = begin
    for block in own:
        if block.address > at:
            blocks.append(_part(at, block.address - at, "inactive", []))
        blocks.append(_part(block.address, block.size_bytes, "active_allocated", _frames(block)))
        at = block.address + block.size_bytes
    if at < end:
        blocks.append(_part(at, end - at, "inactive", []))
    in_use = sum(block.size_bytes for block in own)
    return {
        "device": device,
        "address": begin,
        "total_size": max(end, at) - begin,
        "stream": 0,
        "segment_type": "small" if end - begin <= _SMALL_BYTES else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "allocated_size": in_use,
        "active_size": in_use,
        "requested_size": in_use,
        "frames": [],
        "blocks": blocks,
        "begin_ns": begin_ns,
    }


def _part(address: int, size: int, state: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": state,
        "frames": frames,
    }


def _event(
    action: str, address: int, size: int, time_ns: int, frames: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_ns // 1000,
        "compile_context": "N/A",
        "user_metadata": "",
        "frames": frames,
    }


def _frames(block: HeldBlock) -> list[dict[str, Any]]:
    """The innermost module first."""
    parts = block.path.split(".") if block.path else []
    paths = [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    names = [*(paths or ["(no module)"]), block.kind]
    return [{"filename": block.phase, "line": 0, "name": name} for name in names]
