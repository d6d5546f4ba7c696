"""Ranks that wait for a new communicator: who has come, and when each goes on.

A rank may first announce several, which tells it nothing yet, and then wait for one after the
other: a group of NCCL. So it does not matter in which order others come to them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim_server._engine import Engine, MalformedInput, Request
from sim_server.cluster import GpuNumbers
from sim_server.collectives import Communication
from sim_server.deadlock import ranges_text
from sim_server.errors import Mismatch
from sim_server.fold.communicators import Refusal
from sim_server.fold.runs import runs_of
from sim_server.log.run_log import Reply, RunLog
from sim_server.records import RecordKind, ReplyStatus, WaitKind, announced, named_args
from sim_server.records.communicators import (
    FOLDED_COMMUNICATOR,
    Communicators,
    Joiner,
    Member,
    NewCommunicator,
)


@dataclass(frozen=True)
class _Place:
    """A GPU's place at a meeting. `meeting`: the unique id, or the parent and its split."""

    gpu: int
    meeting: tuple[int, ...]


@dataclass(frozen=True)
class _Made:
    """A communicator that is complete, for one member.

    `time_ns`: from when on its ranks have it. `payload`: the rank of each member, and the member's
    own place among them.
    """

    identifier: int
    time_ns: int
    payload: bytes


def _in_runs(numbers: Sequence[int]) -> bytes:
    """A long list in few words: how many runs, then first, step and count of each."""
    runs = runs_of(numbers)
    words = (word & 0xFFFFFFFF for run in runs for word in run)
    return struct.pack(f"<I{3 * len(runs)}I", len(runs), *words)


class Meetings:
    """Answers ranks that make communicators."""

    def __init__(
        self,
        communicators: Communicators,
        communication: Communication,
        engine: Engine,
        log: RunLog,
        *,
        numbers: GpuNumbers,
        send: Callable[[Reply], None],
    ) -> None:
        self._communicators = communicators
        self._communication = communication
        self._engine = engine
        self._log = log
        self._numbers = numbers
        self._send = send
        self._groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        """By rank and meeting, the ranks of the group for which it comes."""
        self._announced: set[_Place] = set()
        self._waiting: dict[_Place, Request] = {}
        self._made: dict[_Place, _Made] = {}
        """Of ranks that have announced themselves and not asked again."""

    def hear_group(self, rank: int, told: Mapping[str, Any]) -> None:
        """A rank says which ranks the communicator is of that it comes to next."""
        meeting = tuple(map(int, told["meeting"]))
        self._groups[rank, meeting] = list(told["ranks"])

    def meet(self, request: Request) -> None:
        """A rank has come to a communicator, or asks for one that it has come to before."""
        kind = WaitKind(request.kind)
        args = named_args(RecordKind.WAIT, request.args, kind)
        is_new = kind == WaitKind.COMM_INIT
        meeting = (args["unique_id"],) if is_new else (args["parent"], args["index"])
        member = self._member(request, args)
        place = _Place(member.gpu, meeting)
        if place in self._announced and not request.announces:
            self._announced.remove(place)
            self._wait(place, request)
            return
        joiner = Joiner(
            member,
            request.time_ns,
            position=args["position"] if is_new else announced.signed(args["key"]),
            colour=0 if is_new else announced.signed(args["color"]),
            site=request.site,
        )
        ranks = self._groups.pop((request.rank, meeting), None)
        try:
            if is_new:
                created = self._communicators.join(args["unique_id"], args["size"], joiner, ranks)
            else:
                parent, index = args["parent"], args["index"]
                created = self._communicators.split(parent, index, joiner, ranks)
        except Refusal as why:
            raise Mismatch(self._refusal(why)) from why
        if request.announces:
            self._announced.add(place)
            self._answer(request, _Made(0, request.time_ns, b""))
        else:
            self._waiting[place] = request
        for one in created:
            self._welcome(one, meeting, request.time_ns)

    def _refusal(self, why: Refusal) -> str:
        rank = why.joiner.member.rank
        where = self._log.site(rank, why.joiner.site)
        which = "" if why.ranks is None else f" of ranks {ranges_text(why.ranks)}"
        return (
            f"the group{which} that rank {rank} makes at {where} does not go with the "
            f"fold: {why}. What its absent ranks do would be wrong; give the program's layout "
            "with --mesh and fold other dimensions of it with --fold, or run without --fold."
        )

    def _member(self, request: Request, args: Mapping[str, int]) -> Member:
        """Who asks. Raises: MalformedInput if nobody can."""
        rank = request.rank
        if WaitKind(request.kind) == WaitKind.COMM_SPLIT:
            member = self._communicators.member(args["parent"], rank, request.device)
            if member is None:
                raise MalformedInput(
                    f"rank {rank} splits communicator {args['parent']}, not its own"
                )
            return member
        device = args["gpu"] - 1 if args["gpu"] else None
        try:
            gpu = self._numbers.of_device(rank, device)
        except ValueError as error:
            raise MalformedInput(str(error)) from error
        return Member(gpu, rank, device or 0)

    def _wait(self, place: _Place, request: Request) -> None:
        made = self._made.pop(place, None)
        if made is None:
            self._waiting[place] = request
        else:
            self._answer(request, made)

    def _welcome(
        self, created: NewCommunicator, meeting: tuple[int, ...], complete_ns: int
    ) -> None:
        """A split begins when all ranks of the parent have come, also those of another colour."""
        members = created.members
        owners = created.owners
        if created.identifier:
            self._engine.define_communicator(created.identifier, members, owners)
            self._log.add_communicator(created.identifier, members)
        time_ns = complete_ns + self._communication.comm_init_ns(len(members))
        value, ranks = created.identifier, [rank for rank, _ in owners]
        stand_ins = self._communicators.stand_ins(value) if value else None
        if stand_ins is None:
            payload = struct.pack(f"<{len(ranks)}I", *ranks)
        else:
            value |= FOLDED_COMMUNICATOR
            payload = _in_runs(ranks) + _in_runs(stand_ins)
        for position, gpu in enumerate(members):
            if stand_ins is not None and stand_ins[position] != position:
                continue  # absent
            place = _Place(gpu, meeting)
            made = _Made(value, time_ns, payload + struct.pack("<I", position))
            request = self._waiting.pop(place, None)
            if request is None:
                self._made[place] = made
            else:
                self._answer(request, made)

    def _answer(self, request: Request, made: _Made) -> None:
        time_ns = max(request.time_ns, made.time_ns)
        reply = Reply(
            request.rank, request.slot, ReplyStatus.DONE, time_ns, made.identifier, made.payload
        )
        self._engine.answer(reply.rank, reply.slot, reply.status, reply.time_ns, made.identifier)
        self._log.add_answer(request.kind, request.time_ns, reply)
        self._send(reply)
