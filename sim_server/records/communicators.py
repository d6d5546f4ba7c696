"""Creation of communicators: ranks meet by unique id, or by colour when one is split.

Owns the numbering of communicators. Knows nothing of time: the simulation asks who has met and
decides when they go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sim_server._engine import MalformedInput, Ready
from sim_server.errors import Mismatch
from sim_server.records.operations import Operation

# Source: nccl.h, NCCL_SPLIT_NOCOLOR. Every other number is a colour, negative ones too: NCCL
# compares them (commGetSplitInfo in its src/init.cc), and PyTorch 2.5 asks for such.
NO_COLOUR = -1
FOLDED_COMMUNICATOR = 1 << 32
"""Beside the number of a communicator with absent members, in the answer to a rank that joins it:
runs of numbers follow, of its ranks, then of the places of the members that stand for them."""


class Member(NamedTuple):
    """One GPU of a communicator. A rank may drive several of them."""

    gpu: int
    """Its number in the run."""
    rank: int
    """Who drives it."""
    device: int = 0
    """What it is there."""


@dataclass(frozen=True)
class Joiner:
    """One rank that waits in ncclCommInitRank or ncclCommSplit, for one of its GPUs."""

    member: Member
    time_ns: int
    position: int
    """Its rank in the new communicator, or its key for a split."""
    colour: int = 0
    site: int = 0
    """Its call site."""


@dataclass(frozen=True)
class NewCommunicator:
    """A communicator that is complete. `identifier` 0: these ranks asked for none
    (NCCL_SPLIT_NOCOLOR).
    """

    identifier: int
    joiners: tuple[Joiner, ...]
    """In communicator order."""

    @property
    def members(self) -> list[int]:
        """GPUs in communicator order."""
        return [joiner.member.gpu for joiner in self.joiners]

    @property
    def owners(self) -> list[tuple[int, int]]:
        """The rank of each, and the device that it is there."""
        return [(joiner.member.rank, joiner.member.device) for joiner in self.joiners]


@dataclass(frozen=True)
class Meeting:
    """A communicator in the making. `members`: who has to come, where that is known."""

    title: str
    size: int
    members: Sequence[Member] | None
    joiners: list[Joiner]


class Communicators:
    """Who belongs to which communicator, and who still waits for whom."""

    def __init__(self) -> None:
        self._members: dict[int, list[Member]] = {}
        self._owners: dict[int, dict[int, tuple[int, int]]] = {}
        """By communicator and GPU; of communicators in which that says something."""
        self._initialising: dict[int, tuple[int, list[Joiner]]] = {}  # size, who has come
        self._splitting: dict[tuple[int, int], list[Joiner]] = defaultdict(list)
        self._told: dict[tuple[int, ...], dict[int, Sequence[int] | None]] = defaultdict(dict)
        """By meeting and rank, the ranks of the group that it has said."""

    def members(self, communicator: int) -> list[int]:
        """GPUs of `communicator` in its order."""
        return [member.gpu for member in self._members[communicator]]

    def ranks(self, communicator: int) -> list[int]:
        """The rank of each."""
        return [member.rank for member in self._members[communicator]]

    def owners(self, communicator: int, gpus: Sequence[int]) -> list[tuple[int, int]] | None:
        """Rank and device of some of its GPUs; None if all its GPUs are their ranks' own."""
        owners = self._owners.get(communicator)
        return None if owners is None else [owners[gpu] for gpu in gpus]

    def member(self, communicator: int, rank: int, device: int) -> Member | None:
        """What a rank is in a communicator: its one member, or that which is `device`."""
        own = [member for member in self._members.get(communicator, ()) if member.rank == rank]
        if len(own) == 1:
            return own[0]
        return next((member for member in own if member.device == device), None)

    def together(self, ready: Sequence[Ready]) -> Mapping[tuple[int, ...], list[Ready]]:
        """Of what got ready at one instant, what starts as one, each under a key that it has alone
        at that instant: that of one launch.
        """
        groups: dict[tuple[int, ...], list[Ready]] = defaultdict(list)
        for one in ready:
            groups[one.launch,].append(one)
        return groups

    def exchanges(self, communicator: int, operations: Sequence[Operation]) -> bool:
        """Whether these, which start together, are sends of an exchange among all ranks of it, for
        which one stands.
        """
        del communicator, operations
        return False

    def takes_part_in_gather(self, ready: Ready) -> bool:
        """Whether this send, which starts now, is one of those from all ranks to one, or from one
        to all, of which some do not run.
        """
        del ready
        return False

    def beside(self, communicator: int, operations: Sequence[Operation]) -> list[Operation]:
        """What GPUs whose ranks do not run send as one with these, which start together."""
        del communicator, operations
        return []

    def images(
        self, communicator: int, operations: Sequence[Operation]
    ) -> Sequence[Sequence[Operation]]:
        """What GPUs do whose ranks do not run, while others carry out these, of one launch."""
        del communicator, operations
        return ()

    def of_witnesses(
        self, communicator: int, operations: Sequence[Operation]
    ) -> Sequence[Sequence[Operation]]:
        """By operation, those that are the same among witnesses, which start by themselves; of one
        of those, itself alone.
        """
        del communicator
        return [()] * len(operations)

    def stand_ins(self, communicator: int) -> Sequence[int] | None:
        """By place, that of the member which runs and stands for it; None: all members run."""
        del communicator
        return None

    def join(
        self, unique_id: int, size: int, joiner: Joiner, ranks: Sequence[int] | None = None
    ) -> list[NewCommunicator]:
        """A rank called ncclCommInitRank. Returns the communicator once all `size` ranks have.

        `ranks`: those of the group, if the rank has said.
        Raises: Mismatch when two ranks claim the same position, or disagree about the size: on
        hardware that never returns; Mismatch when two come with one GPU; MalformedInput.
        """
        rank = joiner.member.rank
        if not 0 <= joiner.position < size:
            raise MalformedInput(
                f"rank {rank} joins a communicator of {size} as its rank {joiner.position}"
            )
        agreed, waiting = self._initialising.setdefault(unique_id, (size, []))
        for other in waiting:
            if agreed != size:
                raise Mismatch(
                    f"rank {other.member.rank} joined a communicator of {agreed} ranks, and rank "
                    f"{rank} joined it as one of {size}; on hardware that never returns"
                )
            if other.position == joiner.position:
                raise Mismatch(
                    f"ranks {other.member.rank} and {rank} both joined a communicator of {size} "
                    f"as its rank {joiner.position}; on hardware ncclCommInitRank would not return"
                )
            if other.member.gpu == joiner.member.gpu:
                raise Mismatch(_shared_gpu(other.member, joiner.member))
        waiting.append(joiner)
        known = self._known(size, joiner, ranks)
        if len(waiting) < (size if known is None else self._live_of(known)):
            return []
        del self._initialising[unique_id]
        waiting.sort(key=lambda member: member.position)
        return [self._create(self._complete(waiting, known))]

    def split(
        self, parent: int, index: int, joiner: Joiner, ranks: Sequence[int] | None = None
    ) -> list[NewCommunicator]:
        """A rank called ncclCommSplit. Returns the new communicators once all of `parent` have.

        `ranks`: those of its group, if the rank has said.
        Raises: MalformedInput when the rank is not in `parent`.
        """
        rank = joiner.member.rank
        if joiner.member not in self._members.get(parent, ()):
            raise MalformedInput(f"rank {rank} splits communicator {parent}, not its own")
        waiting = self._splitting[parent, index]
        if any(other.member == joiner.member for other in waiting):
            raise MalformedInput(f"rank {rank} splits communicator {parent} twice at once")
        waiting.append(joiner)
        self._told[parent, index][rank] = ranks
        if len(waiting) < self._live_of(self.ranks(parent)):
            return []
        order = {member: position for position, member in enumerate(self._members[parent])}
        del self._splitting[parent, index]
        told = self._told.pop((parent, index))
        colours: dict[int, list[Joiner]] = defaultdict(list)
        for one in sorted(waiting, key=lambda one: (one.position, order[one.member])):
            colours[one.colour].append(one)
        parts = {
            colour: self._part(parent, group, [told[one.member.rank] for one in group])
            for colour, group in sorted(colours.items())
        }
        return [
            NewCommunicator(0, tuple(group)) if colour == NO_COLOUR else self._create(group)
            for colour, group in parts.items()
        ]

    def meetings(self) -> list[Meeting]:
        """Communicators that some ranks have joined and others have not."""
        found = [
            Meeting(f"a new communicator of {size} ranks (ncclCommInitRank)", size, None, joiners)
            for size, joiners in self._initialising.values()
        ]
        for (parent, _), joiners in self._splitting.items():
            members = self._members[parent]
            title = f"communicators split from communicator {parent} (ncclCommSplit)"
            found.append(Meeting(title, len(members), members, joiners))
        return found

    def _known(
        self, size: int, joiner: Joiner, ranks: Sequence[int] | None
    ) -> Sequence[int] | None:
        """The ranks of a new communicator, in its order; None: all of them come."""
        del size, joiner, ranks
        return None

    def _live_of(self, ranks: Sequence[int]) -> int:
        """How many of these come."""
        return len(ranks)

    def _complete(self, joiners: list[Joiner], known: Sequence[int] | None) -> list[Joiner]:
        """All members of a new communicator, in its order; `joiners`: those that have come."""
        del known
        return joiners

    def _part(
        self, parent: int, joiners: list[Joiner], told: Sequence[Sequence[int] | None]
    ) -> list[Joiner]:
        """All members of a part, in its order; `joiners`: those that have come with its colour, and
        `told` what each has said.
        """
        del parent, told
        return joiners

    def _register(self, identifier: int, joiners: Sequence[Joiner]) -> None:
        """A communicator is made."""

    def _create(self, joiners: list[Joiner]) -> NewCommunicator:
        created = NewCommunicator(len(self._members) + 1, tuple(joiners))
        members = [joiner.member for joiner in joiners]
        self._register(created.identifier, joiners)
        self._members[created.identifier] = members
        if any(gpu != rank for gpu, rank, _ in members):
            owners = {gpu: (rank, device) for gpu, rank, device in members}
            self._owners[created.identifier] = owners
        return created


# NCCL compares the members' bus numbers. Source: "Duplicate GPU detected" in its src/init.cc.
def _shared_gpu(one: Member, other: Member) -> str:
    if one.rank == other.rank:
        who = f"rank {one.rank} joins a communicator twice"
    else:
        first, second = sorted((one.rank, other.rank))
        who = f"ranks {first} and {second} both join a communicator"
    return (
        f"{who} with GPU {other.device} of their node; NCCL refuses that (duplicate GPU). Have "
        "each process choose its own GPU, with torch.cuda.set_device(LOCAL_RANK) for example"
    )
