"""Creation of communicators: ranks meet by unique id, or by colour when one is split.

Owns the numbering of communicators. Knows nothing of time: the simulation asks who has met and
decides when they go on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from sim_server._engine import MalformedInput
from sim_server.errors import Mismatch, UnsupportedCall

# Source: nccl.h, NCCL_SPLIT_NOCOLOR. Every other number is a colour, negative ones too: NCCL
# compares them (commGetSplitInfo in its src/init.cc), and PyTorch 2.5 asks for such.
NO_COLOUR = -1


@dataclass(frozen=True)
class Joiner:
    """One rank that waits in ncclCommInitRank or ncclCommSplit."""

    rank: int
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
        """Global ranks in communicator order."""
        return [joiner.rank for joiner in self.joiners]


@dataclass(frozen=True)
class Meeting:
    """A communicator in the making. `members`: who has to come, where that is known."""

    title: str
    size: int
    members: list[int] | None
    joiners: list[Joiner]


class Communicators:
    """Who belongs to which communicator, and who still waits for whom."""

    def __init__(self) -> None:
        self._members: dict[int, list[int]] = {}
        self._initialising: dict[int, tuple[int, list[Joiner]]] = {}  # size, who has come
        self._splitting: dict[tuple[int, int], list[Joiner]] = defaultdict(list)

    def members(self, communicator: int) -> list[int]:
        """Global ranks of `communicator` in its order."""
        return self._members[communicator]

    def join(self, unique_id: int, size: int, joiner: Joiner) -> list[NewCommunicator]:
        """A rank called ncclCommInitRank. Returns the communicator once all `size` ranks have.

        Raises: Mismatch when two ranks claim the same position, or disagree about the size: on
        hardware that never returns; UnsupportedCall when one rank comes twice; MalformedInput.
        """
        if not 0 <= joiner.position < size:
            raise MalformedInput(
                f"rank {joiner.rank} joins a communicator of {size} as its rank {joiner.position}"
            )
        agreed, waiting = self._initialising.setdefault(unique_id, (size, []))
        for other in waiting:
            if agreed != size:
                raise Mismatch(
                    f"rank {other.rank} joined a communicator of {agreed} ranks, and rank "
                    f"{joiner.rank} joined it as one of {size}; on hardware that never returns"
                )
            if other.position == joiner.position:
                raise Mismatch(
                    f"ranks {other.rank} and {joiner.rank} both joined a communicator of {size} as "
                    f"its rank {joiner.position}; on hardware ncclCommInitRank would not return"
                )
        if any(other.rank == joiner.rank for other in waiting):
            raise UnsupportedCall(
                f"rank {joiner.rank} joins one communicator twice: a process drives one GPU here"
            )
        waiting.append(joiner)
        if len(waiting) < size:
            return []
        del self._initialising[unique_id]
        return [self._create(sorted(waiting, key=lambda member: member.position))]

    def split(self, parent: int, index: int, joiner: Joiner) -> list[NewCommunicator]:
        """A rank called ncclCommSplit. Returns the new communicators once all of `parent` have.

        Raises: MalformedInput when the rank is not in `parent`.
        """
        if joiner.rank not in self._members.get(parent, ()):
            raise MalformedInput(f"rank {joiner.rank} splits communicator {parent}, not its own")
        waiting = self._splitting[parent, index]
        if any(other.rank == joiner.rank for other in waiting):
            raise MalformedInput(f"rank {joiner.rank} splits communicator {parent} twice at once")
        waiting.append(joiner)
        order = {rank: position for position, rank in enumerate(self._members[parent])}
        if len(waiting) < len(order):
            return []
        del self._splitting[parent, index]
        colours: dict[int, list[Joiner]] = defaultdict(list)
        for member in sorted(waiting, key=lambda member: (member.position, order[member.rank])):
            colours[member.colour].append(member)
        return [
            NewCommunicator(0, tuple(group)) if colour == NO_COLOUR else self._create(group)
            for colour, group in sorted(colours.items())
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

    def _create(self, joiners: list[Joiner]) -> NewCommunicator:
        created = NewCommunicator(len(self._members) + 1, tuple(joiners))
        self._members[created.identifier] = created.members
        return created
