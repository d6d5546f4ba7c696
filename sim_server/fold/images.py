"""What absent groups send: the operations of the images of a communicator.

They start with the operation of the communicator that stands for them, and their bytes are in the
way of those of others. Where each has links of its own, nothing of them is started before that.
Where routes differ (ECMP), they end at other times than the one that stands for them. Nobody waits
for that, so that it is the error of a folded run. Groups of witnesses start by themselves;
where they start together with those that stand for them, they tell of the same error.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import simpy

from sim_server.collectives import Communication
from sim_server.network import Replicas
from sim_server.records.operations import Operation


@dataclass
class _Exchange:
    """Sends among all ranks of a group, for all of which the first stands."""

    begin_ns: int
    open: int = 0
    ends_ns: dict[int, int] = field(default_factory=dict)
    """By rank, of the last one so far."""


class Images:
    """Starts them, and keeps how far apart they end."""

    def __init__(self, env: simpy.Environment, communication: Communication) -> None:
        self._env = env
        self._communication = communication
        self._ended: dict[Operation, deque[tuple[bool, int, int]]] = defaultdict(deque)
        """Of operations of witnesses, and of those that stand for them, where the other has yet to
        end: whether it is that of the witness, its begin, its duration."""
        self._exchanges: dict[tuple[int, ...], _Exchange] = {}
        """Those that move, by members. A witness may begin a little later."""
        self._replicas: dict[tuple[int, ...], Replicas | None] = {}
        """By members of the group that stands for others: which it is, the fold says."""
        self._operations = 0
        self._most_ns = 0
        self._most_share = 0.0

    def exchange(
        self, operations: Sequence[Operation], own: int, ends: Sequence[simpy.Event]
    ) -> None:
        """Some sends of an exchange have started, the first `own` of ranks that run. It is a spread
        if a rank that does not run ends with it at another time than the one that does.
        """
        members = operations[0].members
        exchange = self._exchanges.setdefault(members, _Exchange(int(self._env.now)))
        exchange.open += len(ends)
        self._operations += own if own < len(operations) else 0
        for number, (one, end) in enumerate(zip(operations, ends, strict=True)):
            is_own = number < own
            _when(end, partial(self._end_send, members, exchange, one.participants, is_own))

    def _end_send(
        self,
        members: tuple[int, ...],
        exchange: _Exchange,
        pair: Sequence[int],
        is_own: bool,
        end: simpy.Event,
    ) -> None:
        if not is_own:
            self._communication.limited_by(end)
        exchange.ends_ns.update(dict.fromkeys(pair, int(self._env.now)))
        exchange.open -= 1
        if exchange.open == 0:
            del self._exchanges[members]
            last_ns = exchange.ends_ns[min(exchange.ends_ns)]
            for end_ns in exchange.ends_ns.values():
                self._differ(last_ns - exchange.begin_ns, end_ns - exchange.begin_ns)

    def start(
        self,
        operations: Sequence[Operation],
        images: Callable[[], Sequence[Sequence[Operation]]],
    ) -> list[simpy.Event]:
        """Starts operations of one launch, and their images. One event each of those that run, as
        of `Communication.start`.
        """
        begin_ns = int(self._env.now)
        if replicas := self._replicas_of(operations, images):
            self._operations += len(operations)
            ends = self._communication.start_group(operations, replicas)
            for own in ends:
                _when(own, partial(self._end_alike, begin_ns))
            return ends
        ends = self._communication.start_group(operations)
        groups = images()
        self._operations += len(ends) if groups else 0
        for image in groups:
            same = self._communication.start_group(image)
            for own, other in zip(ends, same, strict=True):
                _when(other, partial(self._end, own, begin_ns))
        return ends

    def _replicas_of(
        self,
        operations: Sequence[Operation],
        images: Callable[[], Sequence[Sequence[Operation]]],
    ) -> Replicas | None:
        if any(one.is_point_to_point for one in operations):
            return None
        members = operations[0].members
        if members not in self._replicas:
            others = [image[0].members for image in images()]
            found = self._communication.replicas(members, others) if others else None
            self._replicas[members] = found
        return self._replicas[members]

    def compare(
        self,
        operations: Sequence[Operation],
        ends: Sequence[simpy.Event],
        of_witnesses: Sequence[Sequence[Operation]],
    ) -> None:
        """Operations have started. `of_witnesses`: by operation, what of witnesses is the same; of
        one of theirs, itself. They are compared where they start together: a witness may be early,
        and others in its way then.
        """
        for operation, end, same in zip(operations, ends, of_witnesses, strict=False):
            for one in same:
                is_theirs = one == operation
                _when(end, partial(self._match, one, is_theirs, int(self._env.now)))

    def _match(
        self, operation: Operation, is_theirs: bool, begin_ns: int, end: simpy.Event
    ) -> None:
        del end
        took_ns = int(self._env.now) - begin_ns
        waiting = self._ended[operation]
        if not waiting or waiting[0][0] == is_theirs:
            waiting.append((is_theirs, begin_ns, took_ns))
            return
        _, other_begin_ns, other_ns = waiting.popleft()
        if begin_ns == other_begin_ns:
            self._differ(*((other_ns, took_ns) if is_theirs else (took_ns, other_ns)))

    def _end(self, own: simpy.Event, begin_ns: int, other: simpy.Event) -> None:
        self._communication.limited_by(other)
        end_ns = int(self._env.now)
        if own.triggered:
            self._differ(max(own.value or (begin_ns,)) - begin_ns, end_ns - begin_ns)
        else:
            _when(own, lambda _: self._differ(int(self._env.now) - begin_ns, end_ns - begin_ns))

    def _end_alike(self, begin_ns: int, own: simpy.Event) -> None:
        own_ns = int(self._env.now) - begin_ns
        for replica in self._communication.parted(own):
            if replica.done.triggered:
                self._differ(own_ns, max(replica.ends_ns) - begin_ns)
            else:
                _when(replica.done, lambda _: self._differ(own_ns, int(self._env.now) - begin_ns))

    def _differ(self, own_ns: int, other_ns: int) -> None:
        apart_ns = abs(other_ns - own_ns)
        self._most_ns = max(self._most_ns, apart_ns)
        self._most_share = max(self._most_share, apart_ns / max(own_ns, 1))

    def to_dict(self) -> dict[str, Any]:
        """How many operations had images, and how far one ended from its own at most."""
        return {
            "operations": self._operations,
            "spread_ns": self._most_ns,
            "spread_share": self._most_share,
        }


def _when(event: simpy.Event, action: Any) -> None:
    assert event.callbacks is not None, "it has not happened yet"
    event.callbacks.append(action)
