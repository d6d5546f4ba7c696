"""Which communicator each rank had after each of its ncclCommInitRank and ncclCommSplit.

Records have the number of a communicator where it is used, and not where it is made. Ranks that met
in the run meet here again; who they are tells the number (`communicators.json`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from phantora_py.data import RunData
from phantora_py.traces.recorded_steps import RecordedStep
from sim_server.errors import UsageError
from sim_server.files.schema import Fault
from sim_server.log.history import HOST_WAIT_SPAN
from sim_server.records import RecordKind, WaitFlags, WaitKind, named_args
from sim_server.records.announced import signed
from sim_server.records.communicators import NO_COLOUR

_MAKING = (WaitKind.COMM_INIT, WaitKind.COMM_SPLIT)


class Joining(NamedTuple):
    """A rank's coming to a communicator."""

    meeting: tuple[int, ...]
    """The unique id, or the parent and how often it was split before."""
    size: int
    """Of a new one; 0 for a split."""
    position: int
    """In it, or the key of a split."""
    colour: int
    done_ns: int


def joining_of(step: RecordedStep) -> Joining | None:
    """What a step says of a communicator that the rank waits for; None: it is no such step."""
    if step.kind is not RecordKind.WAIT or step.id not in _MAKING:
        return None
    if step.flags & WaitFlags.ANNOUNCES:
        return None
    kind = WaitKind(step.id)
    args = named_args(RecordKind.WAIT, step.args, kind)
    if kind is WaitKind.COMM_INIT:
        meeting = (args["unique_id"],)
        return Joining(meeting, args["size"], args["position"], 0, step.done_ns)
    split = (args["parent"], args["index"])
    return Joining(split, 0, signed(args["key"]), signed(args["color"]), step.done_ns)


class Groups:
    """The communicators of a run. `members`: by number, its ranks in order, absent ones too."""

    def __init__(self, data: RunData) -> None:
        """Raises: UsageError if ranks drive several GPUs each."""
        self.members: Mapping[int, list[int]] = data.communicators
        self._live = frozenset(data.told_settings.live_ranks)
        if _has_several_gpus(data):
            raise UsageError(
                f"{data.path}: its ranks drive several GPUs each; such runs are not exported."
            )

    def made_by(self, joinings: Mapping[int, Sequence[Joining]]) -> dict[int, list[int]]:
        """By rank, the number of the communicator that each of its `joinings` gave it; 0: none.

        Raises: Fault if that is no communicator of the run.
        """
        meetings: defaultdict[tuple[tuple[int, ...], int], list[tuple[Joining, int, int]]]
        meetings = defaultdict(list)
        for rank, own in joinings.items():
            for index, joining in enumerate(own):
                meetings[joining.meeting, joining.colour].append((joining, rank, index))
        made = {rank: [0] * len(own) for rank, own in joinings.items()}
        unused = {
            number: [rank for rank in members if rank in self._live]
            for number, members in self.members.items()
        }
        # Of several with the same members, those that were made first have the lower numbers.
        for (_, colour), come in sorted(meetings.items(), key=lambda one: _begins_ns(one[1])):
            if colour == NO_COLOUR and len(come[0][0].meeting) > 1:
                continue
            ranks = self._in_order(come)
            number = next((one for one, members in unused.items() if members == ranks), None)
            if number is None:
                raise Fault(f"no communicator has the ranks {ranks} that meet")
            del unused[number]
            for _, rank, index in come:
                made[rank][index] = number
        return made

    def _in_order(self, come: Sequence[tuple[Joining, int, int]]) -> list[int]:
        """The ranks in the order of the new communicator."""
        meeting = come[0][0].meeting
        parent = self.members.get(meeting[0], []) if len(meeting) > 1 else []
        place = {rank: index for index, rank in enumerate(parent)}
        ordered = sorted(come, key=lambda one: (one[0].position, place.get(one[1], 0)))
        return [rank for _, rank, _ in ordered]


def _has_several_gpus(data: RunData) -> bool:
    """A rank has work on several, or is several members of a communicator."""
    spans = data.spans
    work = spans[spans["kind"] != HOST_WAIT_SPAN]
    used = np.unique(work["rank"].astype(np.int64) << 16 | work["device"])
    return (
        len(used) > len(np.unique(used >> 16))
        or any(rank >= data.ranks for ranks in data.communicators.values() for rank in ranks)
        or any("owners" in operation for operation in data.operations)
    )


def _begins_ns(come: Sequence[tuple[Joining, int, int]]) -> int:
    return min(joining.done_ns for joining, _, _ in come)
