"""Folded runs in the server: equal to runs of all ranks, and refused where they would not be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import simpy
from engine_harness import op
from played_ranks import COMM_STREAM, FLOAT, Script, make_settings, play, whole_files

from sim_server.cluster import Routing
from sim_server.collectives import Communication
from sim_server.errors import Mismatch
from sim_server.fold import Apart, Dimension, Fold, NotClosedError
from sim_server.fold.images import Images
from sim_server.fold.runs import runs_of
from sim_server.log.history import HOST_WAIT_SPAN
from sim_server.records import NcclOpKind, RecordKind, WaitFlags, WaitKind
from sim_server.records.operations import Operation
from sim_server.settings import Settings
from sim_server.simulation import Simulation

REPLICAS, SHARDS = 4, 2
RANKS = REPLICAS * SHARDS


def mesh(*folded: str) -> Fold:
    """Of RANKS ranks."""
    sizes = {"replicas": REPLICAS, "shards": SHARDS}
    return Fold(tuple(Dimension(name, size, name in folded) for name, size in sizes.items()))


def settings(
    fold: Fold | None = None,
    oversubscription: float = 1.0,
    routing: Routing = Routing.ADAPTIVE,
) -> Settings:
    """Two ranks a node, every node on a leaf of its own."""
    plain = make_settings(RANKS, RANKS // 2)
    fabric = replace(
        plain.cluster.fabric,
        leaf_downlinks=8,
        oversubscription=oversubscription,
        routing=routing,
        spines=4,
    )
    return replace(plain, cluster=replace(plain.cluster, fabric=fabric), fold=fold)


def groups(rank: int) -> tuple[list[int], list[int]]:
    """The replicas of a rank's shard, and the shards of its replica."""
    replica, shard = divmod(rank, SHARDS)
    return (
        [one * SHARDS + shard for one in range(REPLICAS)],
        [replica * SHARDS + one for one in range(SHARDS)],
    )


def tell(script: Script, meeting: Sequence[int], ranks: Sequence[int]) -> None:
    """Of which ranks the next communicator is."""
    told = {"kind": "group", "meeting": list(map(str, meeting)), "ranks": list(ranks)}
    script.announce(RecordKind.STATISTICS, json.dumps(told).encode())


def training(rank: int, comms: tuple[int, int], *, ks: Sequence[int] = (512, 768)) -> Script:
    """Products, and all-reduces among shards and replicas at once. `comms`: the numbers of the
    communicators of the two groups.
    """
    script = Script().site(1, "train.py:10 main").site(2, "train.py:20 main")
    script.join(77, RANKS, rank)
    across, within = groups(rank)
    for index, (colour, group) in enumerate(((rank % SHARDS, across), (rank // SHARDS, within))):
        tell(script, (1, index), group)
        script.split(1, colour=colour, key=rank, index=index)
    for iteration in range(3):
        for k in ks:
            script.gemm(k=k, gap=70)
        done = script.record(stream=2, gap=50)
        script.stream_wait(done, stream=COMM_STREAM)
        script.all_reduce(iteration, count=8 << 20, comm=comms[0], gap=90, site=1)
        script.nccl(
            op(NcclOpKind.ALL_GATHER, iteration, comm=comms[1], count=4 << 20, dtype=FLOAT),
            stream=1,
            gap=30,
            site=1,
        )
        script.gemm(k=2048, gap=40)
        script.step(gap=20).synchronise(gap=40, site=2)
    return script


def scripts(fold: Fold | None) -> list[Script]:
    """Of the ranks that run. Communicators are numbered split by split, in order of colours."""
    live = range(RANKS) if fold is None else fold.live
    colours = [sorted({rank % SHARDS for rank in live}), sorted({rank // SHARDS for rank in live})]
    numbers = [
        (
            2 + colours[0].index(rank % SHARDS),
            2 + len(colours[0]) + colours[1].index(rank // SHARDS),
        )
        for rank in live
    ]
    return [training(rank, comms) for rank, comms in zip(live, numbers, strict=True)]


def files(fold: Fold | None, **fabric: Any) -> dict[str, Any]:
    """What a run leaves behind."""
    simulation, _ = play(scripts(fold), settings(fold, **fabric))
    return whole_files(simulation.files())


def spans_of(run: dict[str, Any], rank: int) -> list[tuple[Any, ...]]:
    """Kernels by what they are and not by their number in the run."""
    spans = run["spans"][run["spans"]["rank"] == rank]
    names = [json.dumps(timing, sort_keys=True) for timing in run["timings"]]
    return [
        (
            *(row["kind"], row["stream"], row["issue_ns"], row["start_ns"], row["end_ns"]),
            names[row["id"]] if row["kind"] == 1 else "",
        )
        for row in spans
        if row["kind"] != HOST_WAIT_SPAN or row["start_ns"] != row["end_ns"]
    ]


def operations_of(run: dict[str, Any], ranks: Sequence[int]) -> list[dict[str, Any]]:
    """Those that these ranks take part in."""
    rows = [row for row in run["operations"] if set(row["members"]) & set(ranks)]
    rows = [{name: row[name] for name in row if name != "comm"} for row in rows]
    return sorted(rows, key=lambda row: (row["moves_ns"], row["kind"], row["members"]))


@pytest.mark.parametrize("folded", [("replicas",), ("replicas", "shards")], ids="-".join)
@pytest.mark.parametrize("oversubscription", [1.0, 16.0])
def test_a_folded_run_is_as_one_of_all_ranks(
    folded: tuple[str, ...], oversubscription: float
) -> None:
    """Spans and operations of the ranks that run, to the nanosecond, also where groups of absent
    ranks are in the way."""
    fold = mesh(*folded)
    whole = files(None, oversubscription=oversubscription)
    quotient = files(fold, oversubscription=oversubscription)
    assert set(quotient["spans"]["rank"]) == set(fold.live)
    for rank in fold.live:
        assert spans_of(quotient, rank) == spans_of(whole, rank)
    assert operations_of(quotient, fold.live) == operations_of(whole, fold.live)


def exchanging(rank: int, counts: Sequence[int] = (4 << 20,)) -> Script:
    """Each rank sends to all and receives from all, as experts do. `counts`: by rank, in turn."""
    script = Script().site(1, "experts.py:10 main").join(77, RANKS, rank)
    for iteration in range(2):
        script.gemm(k=512, gap=70)
        pairs = [
            op(kind, iteration, count=counts[number % len(counts)], root=other, dtype=FLOAT)
            for number, other in enumerate(range(RANKS))
            for kind in (NcclOpKind.SEND, NcclOpKind.RECV)
        ]
        script.nccl(*pairs, gap=50, site=1)
        script.step(gap=20).synchronise(gap=40, site=1)
    return script


@pytest.mark.parametrize("witnesses", [(), (RANKS - 1,), (RANKS // 2, RANKS - 1)])
@pytest.mark.parametrize("oversubscription", [1.0, 16.0])
def test_one_that_stands_for_all_may_exchange_with_them(
    witnesses: tuple[int, ...], oversubscription: float
) -> None:
    """Its sends and those of absent ranks move as in a run of all ranks."""
    fold = replace(mesh("replicas", "shards"), witnesses=witnesses)
    runs = [
        whole_files(play(list(map(exchanging, ranks)), made)[0].files())
        for ranks, made in (
            (range(RANKS), settings(None, oversubscription)),
            (fold.live, settings(fold, oversubscription)),
        )
    ]
    for rank in fold.live:
        assert spans_of(runs[1], rank) == spans_of(runs[0], rank)
    assert operations_of(runs[1], fold.live) == operations_of(runs[0], fold.live)
    images = runs[1]["fold.json"]["images"]
    assert (images["operations"] > 0, images["spread_ns"]) == (True, 0)


def gathering(rank: int) -> Script:
    """The first rank gathers from all others, then scatters to them."""
    script = Script().site(1, "saving.py:20 main").join(77, RANKS, rank)
    root, other = (NcclOpKind.RECV, NcclOpKind.SEND), (NcclOpKind.SEND, NcclOpKind.RECV)
    peers = range(1, RANKS) if rank == 0 else (0,)
    script.step(gap=20)
    for iteration, kind in enumerate(root if rank == 0 else other):
        script.gemm(k=512, gap=70)
        pairs = [op(kind, 0, count=4 << 20, root=peer, dtype=FLOAT) for peer in peers]
        script.nccl(*pairs, gap=50 + iteration, site=1)
        script.synchronise(gap=40, site=1)
    return script


@pytest.mark.parametrize("folded", [("replicas",), ("replicas", "shards")], ids="-".join)
@pytest.mark.parametrize("witnesses", [(), (RANKS - 1,)])
def test_a_rank_may_gather_from_all_and_scatter_to_them(
    folded: tuple[str, ...], witnesses: tuple[int, ...]
) -> None:
    """Its parts move as in a run of all ranks; that absent ones came before it is not known."""
    fold = replace(mesh(*folded), witnesses=witnesses)
    runs = [
        whole_files(play(list(map(gathering, ranks)), settings(made))[0].files())
        for ranks, made in ((range(RANKS), None), (fold.live, fold))
    ]
    assert spans_of(runs[1], 0) == spans_of(runs[0], 0)
    moved = [
        [{**row, "arrivals_ns": None} for row in operations_of(run, fold.live)] for run in runs
    ]
    assert moved[1] == moved[0]
    assert len(moved[0]) == 2 * (RANKS - 1)
    assert runs[1]["fold.json"]["images"]["operations"] == 0


@pytest.mark.parametrize("folded", [("replicas",), ("replicas", "shards")], ids="-".join)
def test_other_exchanges_with_absent_ranks_end_the_run(folded: tuple[str, ...]) -> None:
    """Where another rank stands for some of them, or sizes differ, and so by rank."""
    fold = mesh(*folded)
    counts = (64,) if len(folded) == 1 else (64, 32)
    with pytest.raises(Mismatch, match=r"rank 0 sends to rank \d at experts.py:10 main, for which"):
        play([exchanging(rank, counts) for rank in fold.live], settings(fold))


@pytest.mark.parametrize(("seed", "differ"), [(1, False), (2, True)])
def test_witnesses_do_not_change_how_far_exchanges_are_apart(seed: int, differ: bool) -> None:
    """What they exchange counts too: without it the others would seem to end at other times."""
    spreads_ns = []
    for witnesses in ((), (RANKS - 1,), (RANKS // 2, RANKS - 1)):
        fold = replace(mesh("replicas", "shards"), witnesses=witnesses)
        made = settings(fold, 4.0, Routing.ECMP)
        fabric = replace(made.cluster.fabric, seed=seed)
        made = replace(made, cluster=replace(made.cluster, fabric=fabric))
        simulation, _ = play(list(map(exchanging, fold.live)), made)
        images = whole_files(simulation.files())["fold.json"]["images"]
        spreads_ns.append(images["spread_ns"])
    assert len(set(spreads_ns)) == 1
    assert (spreads_ns[0] > 0) == differ


def test_groups_of_absent_ranks_are_in_the_way() -> None:
    """A fabric with fewer uplinks takes longer for what all send; that test could see it."""
    fold = mesh("replicas", "shards")
    times_ns = [
        sum(row["ends_ns"][0] - row["moves_ns"] for row in run["operations"])
        for run in (files(fold), files(fold, oversubscription=16.0))
    ]
    assert times_ns[1] > 1.5 * times_ns[0]


@pytest.mark.parametrize(("routing", "differ"), [(Routing.ADAPTIVE, False), (Routing.ECMP, True)])
def test_images_that_end_at_other_times_are_told(routing: Routing, differ: bool) -> None:
    """ECMP leads them other ways: some of eight groups meet, and others do not."""
    fold = Fold((Dimension("replicas", 2, folded=True), Dimension("shards", 8, folded=True)))
    env = simpy.Environment()
    cluster = settings(oversubscription=4.0, routing=routing).cluster
    communication = Communication(env, cluster, nodes=2, gpus_per_node=8)
    own = (0, 8)
    operation = Operation(NcclOpKind.ALL_GATHER, 4 << 20, FLOAT, members=own)
    images = Images(env, communication)
    same = [[operation.of(image)] for image in fold.images(own)]
    images.start([operation], lambda: same)
    env.run()
    told = images.to_dict()
    assert told["operations"] == 1
    assert (told["spread_ns"] > 0, told["spread_share"] > 0) == (differ, differ)


@pytest.mark.parametrize(("routing", "differ"), [(Routing.ADAPTIVE, False), (Routing.ECMP, True)])
@pytest.mark.parametrize("pairs", [False, True])
def test_groups_of_witnesses_that_take_longer_are_told(
    pairs: bool, routing: Routing, differ: bool
) -> None:
    """Groups of two, one in each node; every replica but the first is a witness."""
    fold = Fold(
        (Dimension("pp", 2, folded=False), Dimension("dp", 8, folded=True)),
        witnesses=tuple(rank for rank in range(16) if rank % 8),
    )
    cluster = settings(oversubscription=4.0, routing=routing).cluster
    played = []
    for rank in fold.live:
        stage, replica = divmod(rank, 8)
        script = Script().join(77, 16, rank)
        tell(script, (1, 0), [replica, replica + 8])
        script.split(1, colour=replica, key=rank)
        kind = (NcclOpKind.SEND, NcclOpKind.RECV)[stage] if pairs else NcclOpKind.ALL_GATHER
        words = {"comm": 2 + replica, "root": (1 - stage) * pairs, "dtype": FLOAT}
        script.nccl(op(kind, 0, count=4 << 20, **words))
        played.append(script.step().synchronise())
    simulation, _ = play(played, replace(make_settings(16, 2), cluster=cluster, fold=fold))
    images = whole_files(simulation.files())["fold.json"]["images"]
    assert images["operations"] == 0
    assert (images["spread_ns"] > 0, images["spread_share"] > 0) == (differ, differ)


def test_witnesses_that_do_the_same_change_nothing() -> None:
    """And are told, with how much of what they did was compared."""
    fold = replace(mesh("replicas"), witnesses=(2 * SHARDS,))
    whole, quotient = files(None), files(fold)
    for rank in fold.live:
        assert spans_of(quotient, rank) == spans_of(whole, rank)
    (witness,) = quotient["fold.json"]["witnesses"]
    assert witness["steps"] > 15
    assert witness == witness | {"rank": 2 * SHARDS, "representative": 0, "difference": ""}
    after_first_ns, iteration_ns = 40, 70 + 70 + 50 + 90 + 30 + 40 + 20 + 40
    assert witness["host_ns"] == after_first_ns + 2 * iteration_ns
    assert witness["host_ns"] == witness["representative_host_ns"]


@pytest.mark.parametrize("theirs", [{"bags": 8, "distinct": 7}, {"bags": 8}])
def test_a_witness_may_look_up_other_rows(theirs: dict[str, int]) -> None:
    """How many of them differ depends on its data."""
    simulation = _with_lookups({"bags": 8, "distinct": 40}, theirs)
    (witness,) = whole_files(simulation.files())["fold.json"]["witnesses"]
    assert witness["difference"] == ""


@pytest.mark.parametrize("theirs", [{"bags": 3, "distinct": 40}, {"bags": 8, "lookups": 9}])
def test_a_witness_may_not_look_up_more(theirs: dict[str, int]) -> None:
    """Bags and lookups are what it does."""
    with pytest.raises(Mismatch, match="launched the kernel bag"):
        _with_lookups({"bags": 8, "distinct": 40}, theirs)


def _with_lookups(sizes: dict[str, int], theirs: dict[str, int]) -> Simulation:
    """A run in which a rank and its witness end with lookups of these sizes."""
    fold = replace(mesh("replicas"), witnesses=(2 * SHARDS,))
    played = scripts(fold)
    played[0].lookup(sizes).step()
    played[-1].lookup(theirs).step()
    simulation, _ = play(played, settings(fold))
    return simulation


def test_the_host_time_of_a_witness_is_told_beside_its_representatives() -> None:
    """Ranks that do the same may take other times for it, and only those of one are simulated."""
    fold = replace(mesh("replicas"), witnesses=(2 * SHARDS,))
    played = scripts(fold)
    played[0].gemm(k=512, gap=1000).step()
    played[-1].gemm(k=512, gap=300).step()
    simulation, _ = play(played, settings(fold))
    (witness,) = whole_files(simulation.files())["fold.json"]["witnesses"]
    assert witness["representative_host_ns"] - witness["host_ns"] == 700


def test_a_question_that_is_a_wait_in_a_new_simulation_is_compared_with_nothing() -> None:
    """How often a rank asks, and which answer it gets, depends on helper threads."""
    fold = replace(mesh("replicas"), witnesses=(2 * SHARDS,))

    def run(flags: int) -> Simulation:
        played = scripts(fold)
        done = played[0].record(stream=2)
        played[0].wait(WaitKind.EVENT, instance=done, flags=flags)
        for script in (played[0], played[-1]):
            script.step()
        simulation, _ = play(played, settings(fold))
        return simulation

    (witness,) = whole_files(run(WaitFlags.POLLED).files())["fold.json"]["witnesses"]
    assert witness["difference"] == ""
    with pytest.raises(Mismatch, match="waited for event"):
        run(0)


def test_a_witness_that_does_something_else_ends_the_run() -> None:
    """With what both did, and where."""
    fold = replace(mesh("replicas"), witnesses=(2 * SHARDS,))
    played = scripts(fold)
    played[-1] = training(2 * SHARDS, (2, 5), ks=(512, 640))
    with pytest.raises(
        Mismatch,
        match=r"rank 4 launched a matrix product of .* where rank 0 launched a matrix product of ",
    ):
        play(played, settings(fold))


def test_a_difference_after_the_last_step_is_told() -> None:
    """It is in no iteration."""
    fold = replace(mesh("replicas"), witnesses=(2 * SHARDS,))
    played = scripts(fold)
    played[0].gemm(k=512).synchronise()
    simulation, _ = play(played, settings(fold))
    (witness,) = whole_files(simulation.files())["fold.json"]["witnesses"]
    assert "rank 0 launched a matrix product" in witness["difference"]


def test_a_group_that_is_none_of_the_fold_ends_the_run() -> None:
    """And says which, and where."""
    fold = mesh("replicas")
    script = Script().site(1, "train.py:10 main").join(77, RANKS, 0)
    other = Script().join(77, RANKS, 1).split(1, colour=-1, key=0)
    tell(script, (1, 0), [0, 3, 4, 7])
    script.split(1, colour=0, key=0)
    told = r"the group of ranks 0, 3-4, 7 that rank 0 makes at an unknown line .* 0, 2 .* 1, 3"
    with pytest.raises(Mismatch, match=told):
        play([script, other], settings(fold))


def test_a_send_to_an_absent_rank_ends_the_run() -> None:
    """And says who sends to whom."""
    fold = mesh("replicas", "shards")
    script = Script().join(77, RANKS, 0)
    script.nccl(op(NcclOpKind.SEND, 0, count=64, root=3, dtype=FLOAT))
    script.synchronise()
    with pytest.raises(Mismatch, match="rank 0 sends to rank 3"):
        play([script], settings(fold))


def test_blocks_of_replicas_have_images() -> None:
    """Also of groups that the mesh does not name; others have none."""
    fold = Fold((Dimension("replicas", 8, folded=True),))
    assert fold.images([0, 1, 2, 3]) == [(4, 5, 6, 7)]
    assert fold.images([0, 4]) == [(1, 5), (2, 6), (3, 7)]
    assert fold.images([0, 1, 4, 5]) == [(2, 3, 6, 7)]
    assert fold.images(range(8)) == []
    assert fold.images([6, 4]) == [(2, 0), (3, 1), (7, 5)]
    for none in ([0, 1, 2], [0, 3], [0, 1, 3, 4], [1, 2]):
        with pytest.raises(NotClosedError):
            fold.images(none)


def test_images_fall_into_parts() -> None:
    """Every rank of a class is in one of them, once."""
    fold = mesh("replicas")
    for group in ([0, 2, 4, 6], [0, 1], [1], [0, 2], [0, 1, 4, 5]):
        parts = [tuple(group), *fold.images(group)]
        members = [rank for part in parts for rank in part]
        assert len(members) == len(set(members))
        classes = {fold.representative(rank) for rank in group}
        assert set(members) == {r for r in range(RANKS) if fold.representative(r) in classes}


def test_long_lists_are_short_in_runs() -> None:
    """And come back."""
    for numbers in ([], [5], [0, 1, 2], [0, 8, 16, 3], list(range(4096)), [3, 2, 1, 1, 1]):
        runs = runs_of(numbers)
        assert [first + i * step for first, step, count in runs for i in range(count)] == numbers
    assert len(runs_of(range(4096))) == 1


def test_ranks_that_differ_are_classes() -> None:
    """Each range is one, the first of its ranks stands for it, and groups stay what they were."""
    dp = Dimension("dp", 8, folded=True)
    fold = Fold((dp, Dimension("tp", 2, folded=False)), (14,), (Apart(0, 0), Apart(6, 7, "dp")))
    assert fold.representatives == (0, 1, 2, 3, 12, 13)
    assert fold.class_sizes == {0: 1, 1: 1, 2: 5, 3: 5, 12: 2, 13: 2}
    assert (fold.representative(11), fold.representative(15)) == (3, 13)
    assert fold.stands_for(2) == [2, 4, 6, 8, 10]
    assert fold.images(range(16)) == []
    assert len(fold.images([0, 1])) == 7
    assert Fold.from_dict(fold.to_dict()) == fold
