"""What a representative did, as the ranks for which it stands do it."""

from __future__ import annotations

import json

import pytest

from phantora_py.traces.classes import map_of
from phantora_py.traces.unfolded import Unfolded
from sim_server.chakra.execution_trace_pb2 import COMM_COLL_NODE, COMM_SEND_NODE, Node
from sim_server.chakra.files import Value, attribute, values_of
from sim_server.errors import UsageError
from sim_server.fold import Apart, Dimension, Fold

# Two stages, of three replicas: ranks 0, 1, 2 and 3, 4, 5; rank 2 is a witness.
FOLD = Fold((Dimension("pp", 2, folded=False), Dimension("dp", 3, folded=True)), witnesses=(2,))
EVERYBODY, STAGE, PAIR = 1, 2, 3
MEMBERS = {EVERYBODY: [0, 1, 2, 3, 4, 5], STAGE: [0, 1, 2], PAIR: [0, 3], 4: [2, 5]}


def node(kind: int, **told: Value) -> Node:
    """A node with these attributes."""
    made = Node(id=1, name="made", type=kind)  # type: ignore[arg-type]
    made.attr.extend(attribute(name, value) for name, value in told.items())
    return made


def unfolded(
    one: Node, representative: int
) -> dict[int, tuple[dict[str, Value], dict[int, list[int]]]]:
    """By rank, what the node says and the rank's groups."""
    pairs = Unfolded(FOLD, MEMBERS).each_rank([one], representative)
    return {
        rank: (values_of(one.attr), {n: list(m) for n, m in own.items()}) for rank, own in pairs
    }


def test_a_rank_sends_in_its_own_replica() -> None:
    """In the group of its pair, whose number is after all others; witnesses are as absent ones."""
    send = node(COMM_SEND_NODE, pg_name=str(PAIR), comm_src=0, comm_dst=3)
    found = unfolded(send, 0)
    assert [(told["comm_src"], told["comm_dst"]) for told, _ in found.values()] == [
        (0, 3),
        (1, 4),
        (2, 5),
    ]
    assert list(found) == [0, 1, 2]
    assert [told["pg_name"] for told, _ in found.values()] == ["3", "5", "6"]
    together = {EVERYBODY: MEMBERS[EVERYBODY], STAGE: MEMBERS[STAGE]}
    assert [own for _, own in found.values()] == [
        together | {3: [0, 3]},
        together | {5: [1, 4]},
        together | {6: [2, 5]},
    ]


def test_the_root_of_a_common_group_is_one_rank() -> None:
    """That of a group of its own is the rank at the same place."""
    common = unfolded(node(COMM_COLL_NODE, pg_name=str(STAGE), root=0), 0)
    assert [told["root"] for told, _ in common.values()] == [0, 0, 0]
    own = unfolded(node(COMM_COLL_NODE, pg_name=str(PAIR), root=3), 0)
    assert [told["root"] for told, _ in own.values()] == [3, 4, 5]


def test_groups_are_split_by_their_numbers() -> None:
    """The colour and the key of a representative would bring all to one group."""
    split = node(COMM_COLL_NODE, pg_name=str(PAIR), split_of=str(EVERYBODY), color=0, key=7)
    found = [told for told, _ in unfolded(split, 3).values()]
    assert [(told["color"], told["key"]) for told in found] == [(3, 1), (5, 1), (6, 1)]
    assert {told["split_of"] for told in found} == {str(EVERYBODY)}
    without = node(COMM_COLL_NODE, pg_name="0", split_of=str(EVERYBODY), color=-1, key=0)
    assert {told["color"] for told, _ in unfolded(without, 0).values()} == {-1}


def test_what_a_rank_exchanges_with_itself_has_its_own_place() -> None:
    """Here nothing, and as much with each other one."""
    told: dict[str, Value] = {"pg_name": str(STAGE), "in_split_empty": [0]}
    splits: dict[str, Value] = {"in_split_size": [0, 8, 8], "out_split_size": [4, 8, 8]}
    found = [one for one, _ in unfolded(node(COMM_COLL_NODE, **told, **splits), 0).values()]
    assert [one["in_split_size"] for one in found] == [[0, 8, 8], [8, 0, 8], [8, 8, 0]]
    assert [one["out_split_size"] for one in found] == [[4, 8, 8], [8, 4, 8], [8, 8, 4]]
    assert [one["in_split_empty"] for one in found] == [[0], [1], [2]]


def test_groups_of_another_class_are_no_images() -> None:
    """Where a replica is apart, its groups are its own."""
    fold = Fold(
        (Dimension("dp", 4, folded=True), Dimension("tp", 2, folded=False)), apart=(Apart(3, 3),)
    )
    members = {1: list(range(8)), 2: [0, 1], 3: [6, 7]}
    told = json.loads(map_of(fold, members, str))
    assert told["groups"] == {"1": [], "2": [[2, 3], [4, 5]], "3": []}
    assert told["files"] == {
        "0": "0",
        "2": "0",
        "4": "0",
        "6": "6",
        "1": "1",
        "3": "1",
        "5": "1",
        "7": "7",
    }
    pair = node(COMM_COLL_NODE, pg_name="3", root=6)
    made = [(rank, dict(own)) for rank, own in Unfolded(fold, members).each_rank([pair], 6)]
    assert made == [(6, {1: list(range(8)), 3: [6, 7]})]


def test_transfers_with_ranks_that_did_not_run_are_refused() -> None:
    """Nothing tells what those do."""
    gathered = node(COMM_SEND_NODE, pg_name=str(STAGE), comm_src=1, comm_dst=0)
    with pytest.raises(UsageError, match="rank 0 sends to rank 1, or receives"):
        unfolded(gathered, 0)
