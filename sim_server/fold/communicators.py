"""Communicators of a folded run: some of their members are absent (`sim_server.fold`).

Nobody waits for those. Who they are cannot be seen from the ranks that come, so these say of which
ranks the group consists (phantora_py/rank/groups.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sim_server._engine import MalformedInput, Ready
from sim_server.errors import Mismatch
from sim_server.fold.mesh import Fold, NotClosedError
from sim_server.records.communicators import NO_COLOUR, Communicators, Joiner, Member
from sim_server.records.operations import Operation


class Refusal(Exception):  # noqa: N818 - says what happened
    """A group that does not go with the fold; the message is half a sentence."""

    def __init__(self, why: str, joiner: Joiner, ranks: Sequence[int] | None = None) -> None:
        super().__init__(why)
        self.joiner = joiner
        """One of those that made it."""
        self.ranks = ranks
        """None: not known."""


class AbsentPeer(Exception):  # noqa: N818 - says what happened
    """A rank sends to one that does not run, or receives from it; the message says who."""

    advice = (
        "for which another rank stands in this run. Sends and receives reach ranks that run only: "
        "fold dimensions of the mesh within which nobody sends, call a dimension of pipeline "
        "stages pp in --mesh, so that witnesses run with all their stages, or run without --fold."
    )

    def __init__(self, ready: Ready, rank: int) -> None:
        """`rank`: the one that runs."""
        does, peer = "receives from", ready.source
        if ready.source == rank:
            does, peer = "sends to", ready.destination
        super().__init__(f"rank {rank} {does} rank {peer}")
        self.ready = ready


class FoldedCommunicators(Communicators):
    """See `Communicators`. A group's ranks are those in the order of the communicator.

    Where one rank stands for all others of a group, it may exchange with all of them as much: they
    do the same. In a run of all ranks a send gets ready with the later of its two ranks, and at one
    instant ranks come in their order. So what each rank exchanges with those before it starts as
    one, and here, too.

    A rank may also gather from all others of a group, or scatter to them. Absent ones are there
    when it is.
    """

    def __init__(self, fold: Fold) -> None:
        super().__init__()
        self._fold = fold
        self._images: dict[int, list[tuple[int, ...]]] = {}
        self._of_witnesses: dict[int, list[tuple[int, ...]]] = {}
        """Groups that do the same as this one, in which a witness runs."""
        self._stand_ins: dict[int, list[int]] = {}
        self._for_all: dict[int, int] = {}
        """Who stands for all ranks of a communicator, if one does."""
        self._awaited: Counter[tuple[int, int, int]] = Counter()
        """Communicator, source and destination: sends between ranks that run, of a gather or
        scatter that has begun. Absent ranks do as these, so they have no images elsewhere."""
        self._gathered: set[int] = set()
        """The operations that are such sends, and have yet to start."""

    def together(self, ready: Sequence[Ready]) -> Mapping[tuple[int, ...], list[Ready]]:
        """See `Communicators.together`. Raises: AbsentPeer."""
        if self._fold.searches:
            return super().together(ready)
        across: dict[tuple[int, int], list[Ready]] = defaultdict(list)
        groups: dict[tuple[int, ...], list[Ready]] = defaultdict(list)
        for one in ready:
            key: tuple[int, ...] = (one.launch,)
            if one.source >= 0 and one.comm in self._stand_ins:
                for rank, peer in ((one.source, one.destination), (one.destination, one.source)):
                    if self._fold.representative(rank) == rank and not self._fold.is_live(peer):
                        across[one.comm, rank].append(one)
                        key = (one.comm, peer)
                if one.comm in self._for_all:
                    key = (one.comm, max(one.source, one.destination))
            groups[key].append(one)
        for (communicator, rank), sends in across.items():
            self._check_peers(communicator, rank, sends)
            if communicator not in self._for_all:
                self._begin_gather(communicator, rank, is_scatter=sends[0].source == rank)
        for one in ready:
            pair = one.comm, one.source, one.destination
            if self._awaited[pair]:
                self._awaited[pair] -= 1
                self._gathered.add(one.operation)
        return groups

    def _check_peers(self, communicator: int, rank: int, sends: Sequence[Ready]) -> None:
        """Whether a rank exchanges as much with each that is absent, or gathers from these, or
        scatters to them; one alone could be a stage of a pipeline. Raises: AbsentPeer.
        """
        absent = sorted(one for one in self.ranks(communicator) if not self._fold.is_live(one))
        to = sorted(one.destination for one in sends if one.source == rank)
        of = sorted(one.source for one in sends if one.destination == rank)
        if to and of:
            is_regular = self._for_all.get(communicator) == rank and to == of == absent
        else:
            is_regular = len(absent) > 1 and (to or of) == absent
        if not is_regular or len({(one.count, one.dtype) for one in sends}) > 1:
            raise AbsentPeer(sends[0], rank)

    def _begin_gather(self, communicator: int, rank: int, is_scatter: bool) -> None:
        for other in filter(self._fold.is_live, self.ranks(communicator)):
            source, destination = (rank, other) if is_scatter else (other, rank)
            self._awaited[communicator, source, destination] += other != rank

    def takes_part_in_gather(self, ready: Ready) -> bool:
        """See `Communicators.takes_part_in_gather`."""
        found = ready.operation in self._gathered
        self._gathered.discard(ready.operation)
        return found

    def exchanges(self, communicator: int, operations: Sequence[Operation]) -> bool:
        """See `Communicators.exchanges`."""
        rank = self._for_all.get(communicator)
        return {one.source for one in operations} > {rank} if rank is not None else False

    def beside(self, communicator: int, operations: Sequence[Operation]) -> list[Operation]:
        """See `Communicators.beside`."""
        if not self.exchanges(communicator, operations):
            return []
        rank = self._for_all[communicator]
        own = [one for one in operations if rank in one.participants]
        last = max(own[0].participants)
        if self._fold.is_live(last):
            return []
        before = [
            one for one in self.ranks(communicator) if one < last and not self._fold.is_live(one)
        ]
        return [
            replace(
                one,
                source=last if one.source == last else other,
                destination=last if one.destination == last else other,
            )
            for other in before
            for one in own
        ]

    def images(
        self, communicator: int, operations: Sequence[Operation]
    ) -> Sequence[Sequence[Operation]]:
        """See `Communicators.images`. Where some members are absent, pairs have images within."""
        groups = [[one.of(image) for one in operations] for image in self._images[communicator]]
        if communicator in self._stand_ins:
            pairs = [one for one in operations if self._has_images(one)]
            images = (self._fold.images(one.participants) for one in pairs)
            groups += [
                [
                    replace(one, source=pair[0], destination=pair[1])
                    for one, pair in zip(pairs, together, strict=True)
                ]
                for together in zip(*images, strict=True)
                if not any(self._fold.is_live(rank) for pair in together for rank in pair)
            ]
        return groups

    def of_witnesses(
        self, communicator: int, operations: Sequence[Operation]
    ) -> Sequence[Sequence[Operation]]:
        """See `Communicators.of_witnesses`. Where some members are absent, pairs are within. A pair
        of which one is absent starts when the other one comes, and not with its like.
        """
        if not self._fold.witnesses or communicator in self._for_all:
            return super().of_witnesses(communicator, operations)
        return [self._same(communicator, one) for one in operations]

    def _same(self, communicator: int, operation: Operation) -> list[Operation]:
        fold, live = self._fold, list(filter(self._fold.is_live, operation.participants))
        if all(fold.representative(rank) != rank for rank in live):
            same = [operation]
        else:
            same = [operation.of(image) for image in self._of_witnesses[communicator]]
            if communicator in self._stand_ins and self._has_images(operation):
                same += [
                    replace(operation, source=pair[0], destination=pair[1])
                    for pair in fold.images(operation.participants)
                ]
        if operation.is_point_to_point:
            return [one for one in same if all(map(fold.is_live, one.participants))]
        return same

    def _has_images(self, operation: Operation) -> bool:
        """Whether it is a pair of representatives in one replica."""
        fold, pair = self._fold, operation.participants
        return (
            operation.is_point_to_point
            and not operation.is_gathered
            and operation.source != operation.destination
            and all(fold.representative(rank) == rank for rank in pair)
            and fold.replica(pair[0]) == fold.replica(pair[1])
        )

    def stand_ins(self, communicator: int) -> Sequence[int] | None:
        """See `Communicators.stand_ins`."""
        return self._stand_ins.get(communicator)

    def _known(
        self, size: int, joiner: Joiner, ranks: Sequence[int] | None
    ) -> Sequence[int] | None:
        self._check_own_gpu(joiner)
        if ranks is None and size == self._fold.ranks:
            return range(size)
        # Two that send to each other make a communicator of their own beside that of their group.
        if ranks is None or len(ranks) != size:
            return None
        if ranks[joiner.position] != joiner.member.rank:
            raise MalformedInput(
                f"rank {joiner.member.rank} joins a communicator as its rank {joiner.position}, "
                f"which in its group is rank {ranks[joiner.position]}"
            )
        return ranks

    def _live_of(self, ranks: Sequence[int]) -> int:
        return sum(map(self._fold.is_live, ranks))

    def _complete(self, joiners: list[Joiner], known: Sequence[int] | None) -> list[Joiner]:
        if known is None:
            return joiners
        came = {joiner.member.rank: joiner for joiner in joiners}
        return [
            came.get(rank) or Joiner(Member(rank, rank), joiners[0].time_ns, position)
            for position, rank in enumerate(known)
        ]

    def _part(
        self, parent: int, joiners: list[Joiner], told: Sequence[Sequence[int] | None]
    ) -> list[Joiner]:
        of_parent = self.ranks(parent)
        if joiners[0].colour == NO_COLOUR or len(of_parent) == self._live_of(of_parent):
            return joiners
        ranks = told[0]
        if ranks is None:
            raise Refusal("PyTorch has not said of which ranks it is", joiners[0])
        if any(other != ranks for other in told):
            raise Mismatch(
                f"ranks {joiners[0].member.rank} and {joiners[-1].member.rank} split communicator "
                f"{parent} into different groups under one colour"
            )
        if foreign := set(ranks) - set(of_parent):
            raise MalformedInput(f"rank {min(foreign)} is in no group of communicator {parent}")
        came = {joiner.member.rank for joiner in joiners}
        if came != set(filter(self._fold.is_live, ranks)):
            raise Mismatch(
                f"communicator {parent} is split into a group of {len(ranks)} ranks to which "
                f"others come than its own: rank {min(came ^ set(ranks))} for one"
            )
        for joiner in joiners:
            self._check_own_gpu(joiner)
        return self._complete(joiners, ranks)

    def _register(self, identifier: int, joiners: Sequence[Joiner]) -> None:
        """Raises: Refusal."""
        fold, ranks = self._fold, [joiner.member.rank for joiner in joiners]
        try:
            own = fold.own_images(ranks)
        except NotClosedError as error:
            live = next(one for one in joiners if fold.is_live(one.member.rank))
            raise Refusal(str(error), live, ranks) from error
        # Those of a witness start by themselves.
        self._of_witnesses[identifier] = [one for one in own if any(map(fold.is_live, one))]
        self._images[identifier] = [one for one in own if not any(map(fold.is_live, one))]
        if all(map(fold.is_live, ranks)):
            return
        places = {rank: place for place, rank in enumerate(ranks) if fold.is_live(rank)}
        first = min(places.values())
        (stand_in, *others) = {fold.representative(rank) for rank in ranks}
        if stand_in in places and not others:
            self._for_all[identifier] = stand_in
        self._stand_ins[identifier] = [
            places.get(rank, places.get(fold.representative(rank), first)) for rank in ranks
        ]

    @staticmethod
    def _check_own_gpu(joiner: Joiner) -> None:
        if joiner.member.gpu != joiner.member.rank:
            raise Mismatch(
                f"rank {joiner.member.rank} joins a communicator with a GPU that is not its own; "
                "ranks that do so cannot be folded: run without --fold"
            )
