"""The oracle's rules of CUDA: which call waits for which, and how long a copy takes."""

from __future__ import annotations

from calls import Call, Stream
from machine import (
    DEVICE_LATENCY_NS,
    FILL_LATENCY_NS,
    HOST,
    MEMORY_BYTES_PER_S,
    PAGEABLE,
    PEER,
    PINNED,
)

from sim_server.records import CopyKind, WaitKind


def same_queue(one: Stream, other: Stream) -> bool:
    """Whether these are one stream."""
    return one == other


def legacy_covers(one: Stream, other: Stream) -> bool:
    """Whether `one` is the legacy default stream of a device and `other` is ordered with it."""
    return one.identifier == 0 and other.blocking and one.device == other.device


def waits_for(call: Call, earlier: Call) -> bool:
    """Whether a call waits for an earlier one that is not done."""
    if earlier.what == "wait":
        return False
    if call.wait is WaitKind.DEVICE:
        return call.stream.device == earlier.stream.device
    if call.wait is WaitKind.STREAM:
        return covers(call.stream, earlier.stream)
    if call.wait is WaitKind.EVENT:
        return records(earlier, call.args[0])
    if call.wait is WaitKind.RESUME:
        return False
    return (
        covers(call.stream, earlier.stream)
        or legacy_covers(earlier.stream, call.stream)
        or (call.what == "follow" and records(earlier, call.args[0]))
    )


def covers(stream: Stream, other: Stream) -> bool:
    """Whether work of `other` has to be done before `stream` is."""
    return same_queue(stream, other) or legacy_covers(stream, other)


def records(call: Call, event: int) -> bool:
    """Whether a call records this event."""
    return call.what == "record" and call.args[0] == event


def is_inside(call: Call) -> bool:
    """Whether this is a copy inside a device, which runs like a kernel."""
    return call.what == "copy" and call.args[0] == CopyKind.DEVICE_TO_DEVICE


def duration_ns(call: Call) -> int:
    """How long a kernel, copy or fill takes that has the device for itself."""
    if call.what == "kernel":
        return call.args[0]
    if call.what == "fill":
        return FILL_LATENCY_NS + _moving_ns(call.args[0], MEMORY_BYTES_PER_S)
    kind, size_bytes, pageable = call.args
    link = PAGEABLE if pageable else PINNED
    latency_ns, bytes_per_s = {
        CopyKind.HOST_TO_DEVICE: link,
        CopyKind.DEVICE_TO_HOST: link,
        CopyKind.DEVICE_TO_DEVICE: (DEVICE_LATENCY_NS, MEMORY_BYTES_PER_S // 2),
        CopyKind.PEER_TO_PEER: PEER,
        CopyKind.HOST_TO_HOST: HOST,
    }[CopyKind(kind)]
    return latency_ns + _moving_ns(size_bytes, bytes_per_s)


def _moving_ns(size_bytes: int, bytes_per_s: int) -> int:
    return -(-size_bytes * 10**9 // bytes_per_s)
