"""Communicators: who meets whom, under which number, in which order."""

from __future__ import annotations

import pytest

from sim_server.errors import Deadlock
from sim_server.records.communicators import Communicators, Joiner, Member, NewCommunicator


def joiner(rank: int, position: int, colour: int = 0, time_ns: int = 0) -> Joiner:
    return Joiner(Member(rank, rank), time_ns=time_ns, position=position, colour=colour)


def world(ranks: int) -> Communicators:
    """Communicator 1 of all ranks."""
    communicators = Communicators()
    for rank in range(ranks):
        communicators.join(7, ranks, joiner(rank, rank))
    return communicators


def members(created: list[NewCommunicator]) -> list[tuple[int, list[int]]]:
    return [(one.identifier, one.members) for one in created]


def test_a_communicator_is_complete_when_its_last_rank_has_joined() -> None:
    """Its order is that of the positions, not of the joining."""
    communicators = Communicators()
    assert communicators.join(7, 3, joiner(rank=5, position=2)) == []
    assert communicators.join(7, 3, joiner(rank=9, position=0)) == []
    created = communicators.join(7, 3, joiner(rank=1, position=1))
    assert members(created) == [(1, [9, 1, 5])]
    assert communicators.members(1) == [9, 1, 5]
    assert communicators.meetings() == []


def test_unique_ids_keep_communicators_apart() -> None:
    """Two are created side by side; a number is given when one is complete."""
    communicators = Communicators()
    assert communicators.join(1, 2, joiner(0, 0)) == []
    assert communicators.join(2, 2, joiner(2, 0)) == []
    second = communicators.join(2, 2, joiner(3, 1))
    first = communicators.join(1, 2, joiner(1, 1))
    assert members(second + first) == [(1, [2, 3]), (2, [0, 1])]


def test_a_unique_id_can_be_used_again() -> None:
    """What a communicator was made with does not bind later ones."""
    communicators = world(2)
    communicators.join(7, 2, joiner(0, 0))
    assert members(communicators.join(7, 2, joiner(1, 1))) == [(2, [0, 1])]


def test_two_ranks_at_one_position_never_meet() -> None:
    """The message names both and the position."""
    communicators = Communicators()
    communicators.join(7, 4, joiner(rank=2, position=1))
    with pytest.raises(
        Deadlock, match="ranks 2 and 3 both joined a communicator of 4 as its rank 1"
    ):
        communicators.join(7, 4, joiner(rank=3, position=1))


def test_split_by_colour_and_key() -> None:
    """As ncclCommSplit: one communicator a colour, ordered by key, then by the parent's order."""
    communicators = world(4)
    for rank, colour, key in ((3, 1, 0), (0, 0, 5), (2, 0, -5)):
        assert communicators.split(1, 0, joiner(rank, key, colour)) == []
    created = communicators.split(1, 0, joiner(1, 0, colour=1))
    assert members(created) == [(2, [2, 0]), (3, [1, 3])]


def test_a_rank_without_colour_gets_no_communicator() -> None:
    """NCCL_SPLIT_NOCOLOR: it takes part in the call, and its number is 0."""
    communicators = world(3)
    communicators.split(1, 0, joiner(0, 0, colour=-1))
    communicators.split(1, 0, joiner(1, 0, colour=4))
    created = communicators.split(1, 0, joiner(2, 0, colour=-1))
    assert members(created) == [(0, [0, 2]), (2, [1])]


def test_splits_of_one_parent_are_told_apart_by_their_number() -> None:
    """A rank may be at its second split while another is at its first."""
    communicators = world(2)
    assert communicators.split(1, 0, joiner(0, 0)) == []
    assert communicators.split(1, 1, joiner(0, 0)) == []
    assert members(communicators.split(1, 0, joiner(1, 1))) == [(2, [0, 1])]
    assert members(communicators.split(1, 1, joiner(1, 1))) == [(3, [0, 1])]


def test_who_waits_is_told() -> None:
    """For the deadlock report: those who came, and for a split those who did not."""
    communicators = world(4)
    communicators.join(8, 2, joiner(3, 0))
    communicators.split(1, 0, joiner(2, 0))
    communicators.split(1, 0, joiner(0, 0))
    new, split = communicators.meetings()
    assert (new.title, new.size) == ("a new communicator of 2 ranks (ncclCommInitRank)", 2)
    assert (new.members, [one.member.rank for one in new.joiners]) == (None, [3])
    assert split.title == "communicators split from communicator 1 (ncclCommSplit)"
    assert [one.rank for one in split.members or ()] == [0, 1, 2, 3]
    assert [one.member.rank for one in split.joiners] == [2, 0]
