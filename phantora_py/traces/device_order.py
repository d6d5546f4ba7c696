"""What work on a device waits for: nodes of the streams before it, by CUDA's rules.

The rules are those of csrc/engine/streams.h: a stream does one thing after the other; the legacy
default stream of a device also waits for its blocking streams, and they for it.
"""

from __future__ import annotations

from collections.abc import Iterable

Stream = tuple[int, int]
"""Device and number; 0 is the legacy default stream."""
Tails = dict[Stream, tuple[int, ...]]
"""The last nodes of some streams: all that was put into them before is done when these are. Several
nodes of one stream were launched together."""


class DeviceOrder:
    """The streams of a rank. Nodes have numbers that grow."""

    def __init__(self) -> None:
        self._tails: dict[Stream, Tails] = {}
        self._blocking: dict[int, list[Stream]] = {}
        self._ordered: set[Stream] = set()
        self._devices: dict[int, int] = {}
        self._events: dict[int, Tails] = {}

    def stream(self, device: int, number: int) -> Stream:
        """The stream that a record names."""
        return self._devices.get(number, device), number

    def create(self, stream: Stream, is_blocking: bool) -> None:
        """A stream is made."""
        self._devices[stream[1]] = stream[0]
        self._tails.pop(stream, None)
        if is_blocking:
            self._blocking.setdefault(stream[0], []).append(stream)
            self._ordered.add(stream)

    def put(self, stream: Stream, nodes: Iterable[int]) -> None:
        """These are launched together, after `before(stream)`."""
        self._tails[stream] = {stream: tuple(nodes)}

    def before(self, stream: Stream) -> Tails:
        """What the next item of a stream waits for."""
        waits_for = self.work_of(stream)
        if stream in self._ordered:
            waits_for = _joined(waits_for, self._tails.get((stream[0], 0), {}))
        return waits_for

    def work_of(self, stream: Stream) -> Tails:
        """What a synchronisation with a stream waits for."""
        work = self._tails.get(stream, {})
        if stream[1] == 0:
            for other in self._blocking.get(stream[0], ()):
                work = _joined(work, self._tails.get(other, {}))
        return work

    def work_of_device(self, device: int) -> Tails:
        """Likewise with a device."""
        work: Tails = {}
        for stream, tails in self._tails.items():
            if stream[0] == device:
                work = _joined(work, tails)
        return work

    def record(self, event: int, stream: Stream) -> None:
        """An event is recorded."""
        self._events[event] = self._tails[stream] = self.before(stream)

    def wait(self, event: int, stream: Stream) -> None:
        """A stream waits for an event."""
        self._tails[stream] = _joined(self.before(stream), self.event(event))

    def event(self, event: int) -> Tails:
        """What an event waits for."""
        return self._events.get(event, {})


def nodes_of(tails: Tails) -> list[int]:
    """All their nodes."""
    return sorted({node for nodes in tails.values() for node in nodes})


def _joined(one: Tails, other: Tails) -> Tails:
    """Of each stream what was launched last."""
    joined = dict(one)
    for stream, nodes in other.items():
        joined[stream] = max(joined.get(stream, nodes), nodes)
    return joined
