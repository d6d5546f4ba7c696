"""Folded runs of real programs: as runs of all ranks, from the first optimizer step on."""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantora_runs import EXAMPLES, Phantora, Run

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.iterations import find_iterations
from phantora_py.report.summary import summarise
from sim_server.log.history import HOST_WAIT_SPAN
from sim_server.records import MarkerKind, WaitKind

pytestmark = pytest.mark.torch
needs_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None,
    reason="DeepSpeed is not installed: nox -s frameworks",
)

# Two nodes of four.
CLUSTER = ["--ranks", "8", "--gpus-per-node", "4"]
LLAMA: list[str | Path] = [
    EXAMPLES / "train_llama.py",
    *("--layers", "2", "--width", "256", "--hidden", "704", "--heads", "4"),
    *("--vocabulary", "1024", "--sequence", "256", "--steps", "3"),
]
GPT = [EXAMPLES / "train_gpt_ddp.py", "--layers", "2", "--steps", "3", "--batch", "2"]
PROGRAMS = Path(__file__).parent / "programs"
PIPELINES = PROGRAMS / "pipelines.py"
EXPERTS = PROGRAMS / "expert_groups.py"
DEEPSPEED = PROGRAMS / "with_deepspeed.py"
DIFFERENT = [PROGRAMS / "ranks_that_differ.py"]
STAGES = ["--fold", "dp", "--mesh", "pp=2,dp=4,tp=1"]
BLOCKS = ["--fold", "dp", "--mesh", "pp=2,dp=2,tp=2"]
UNEVEN = [*LLAMA, "--vocabulary", "1020"]
"""Shards of 128 rows, of the last rank 124."""
PAIR = ["--fold", "dp", "--mesh", "dp=2,tp=4"]
"""Runs one tensor-parallel group of two."""


Whole = Callable[[Sequence[str | Path]], Run]


@pytest.fixture(scope="module")
def run_whole(phantora: Phantora) -> Whole:
    """Runs of all ranks on `CLUSTER`, each command once."""
    runs: dict[tuple[str | Path, ...], Run] = {}

    def run(command: Sequence[str | Path]) -> Run:
        key = tuple(command)
        if key not in runs:
            runs[key] = phantora.run(CLUSTER, command)
        return runs[key]

    return run


def first_step_ns(run: Run) -> int:
    """When rank 0 has made it."""
    steps = (
        time_ns
        for rank, time_ns, kind, _ in run.data.markers
        if rank == 0 and kind == MarkerKind.OPTIMIZER_STEP
    )
    return next(steps)


def spans_of(run: Run, rank: int) -> list[tuple[Any, ...]]:
    """What a rank did from the first step on, relative to that. Left out are waits for a place in
    the launch queue that found one at once: they come after so many launches, of the start too.
    """
    begin_ns = first_step_ns(run)
    spans = run.data.spans_of(rank)
    names = run.data.timings
    return sorted(
        (
            *(int(one["issue_ns"]) - begin_ns, int(one["start_ns"]) - begin_ns),
            *(int(one["end_ns"]) - begin_ns, int(one["kind"]), int(one["stream"])),
            names[one["id"]]["name"] if one["kind"] == 1 else "",
        )
        for one in spans
        if one["issue_ns"] >= begin_ns and not _only_asks(one)
    )


def _only_asks(span: Any) -> bool:
    is_question = (span["kind"], span["id"]) == (HOST_WAIT_SPAN, WaitKind.LAUNCH_QUEUE)
    return bool(is_question and span["start_ns"] == span["end_ns"])


def operations_of(run: Run, ranks: set[int]) -> list[dict[str, Any]]:
    """Those of these ranks from then on. Communicators have other numbers where some are absent."""
    begin_ns = first_step_ns(run)
    found = [
        {
            **{name: row[name] for name in row if name != "comm"},
            **{
                name: (np.array(row[name]) - begin_ns).tolist()
                for name in ("arrivals_ns", "moves_ns", "ends_ns")
            },
        }
        for row in run.data.operations
        if min(row["arrivals_ns"]) >= begin_ns and ranks & set(row["members"])
    ]
    return sorted(found, key=lambda row: (row["moves_ns"], row["kind"], row["members"]))


def check_equal(whole: Run, folded: Run) -> None:
    """Iterations, spans, operations, peaks of memory and tokens, to the nanosecond and byte, of
    every rank; and witnesses did the same.
    """
    iterations = [np.diff(find_iterations(run.data).boundaries_ns) for run in (whole, folded)]
    assert iterations[0].tolist() == iterations[1].tolist()
    assert len(iterations[0]) >= 2
    told = folded.data.told
    for rank in range(8):
        assert spans_of(folded, told.stand_in(rank)) == spans_of(whole, rank)
    of_told = set(told.ranks)
    assert operations_of(folded, of_told) == operations_of(whole, of_told)
    assert len(operations_of(whole, of_told)) >= 2
    assert folded.data.memory == whole.data.memory
    assert folded.summary["throughput"] == whole.summary["throughput"]
    assert folded.summary["breakdown_ns"] == whole.summary["breakdown_ns"]
    for compared in folded.summary["trust"]["folding"]["witnesses"]:
        assert compared["steps"] > 20
        assert compared["difference"] == ""


@pytest.mark.parametrize(
    ("folding", "command"),
    [
        pytest.param(["--fold", "1"], LLAMA, id="fsdp2"),
        pytest.param(["--fold", "1"], [*LLAMA, "--fsdp", "4"], id="hsdp"),
        pytest.param(PAIR, [*LLAMA, "--tp", "4", "--fsdp", "1"], id="tp-dp"),
        pytest.param(PAIR, [*LLAMA, "--tp", "4", "--fsdp", "2"], id="tp-fsdp2"),
        pytest.param(
            ["--fold", "replicate,shard", "--mesh", "replicate=2,shard=2,tp=2"],
            [*LLAMA, "--tp", "2", "--fsdp", "2"],
            id="hsdp-tp",
        ),
        pytest.param(["--fold", "1"], GPT, id="ddp"),
        pytest.param(["--fold", "1", "--apart", "0,6-7"], DIFFERENT, id="ranks-that-differ"),
        pytest.param(["--fold", "1", "--apart", "7"], UNEVEN, id="uneven-shards"),
        pytest.param(STAGES, [PIPELINES, "GPipe", "2", "1"], id="gpipe-dp"),
        pytest.param(STAGES, [PIPELINES, "1F1B", "2", "1"], id="1f1b-dp"),
        pytest.param(STAGES, [PIPELINES, "hand", "2", "1"], id="pipeline-by-hand-dp"),
        pytest.param(BLOCKS, [PIPELINES, "1F1B", "2", "2"], id="pp-dp-tp"),
        pytest.param(
            ["--fold", "shard,tp", "--mesh", "pp=2,shard=2,tp=2"],
            [EXAMPLES / "train_llama_pipeline.py", *LLAMA[1:], "--pp", "2", "--tp", "2"],
            id="llama-pp-fsdp-tp",
        ),
        pytest.param(["--fold", "1"], [EXPERTS, "8"], id="experts"),
        pytest.param(
            ["--fold", "dp", "--mesh", "dp=2,ep=4"], [EXPERTS, "4", "splits"], id="experts-dp"
        ),
        pytest.param(["--fold", "auto"], [PIPELINES, "1F1B", "2", "2"], id="auto-pp-dp-tp"),
    ],
)
def test_a_folded_run_is_as_one_of_all_ranks(
    phantora: Phantora, run_whole: Whole, folding: list[str], command: list[str | Path]
) -> None:
    """Iterations, spans, operations, peaks of memory and tokens, to the nanosecond and byte, of
    every rank; and witnesses did the same."""
    whole = run_whole(command)
    folded = phantora.run([*CLUSTER, *folding, "--witness", "1"], command)
    assert (whole.exit_code, folded.exit_code) == (0, 0), folded.errors
    check_equal(whole, folded)


def test_one_rank_exchanges_with_those_that_it_stands_for(phantora: Phantora) -> None:
    """By sends to each. It takes the time that it takes in a run of all ranks, where others may
    take another: as far as the report says.
    """
    command: list[str | Path] = [EXPERTS, "8", "splits"]
    whole = phantora.run(CLUSTER, command)
    folded = phantora.run([*CLUSTER, "--fold", "1", "--witness", "1"], command)
    assert (whole.exit_code, folded.exit_code) == (0, 0), folded.errors
    boundaries_ns = [find_iterations(run.data).boundaries_ns for run in (whole, folded)]
    assert np.diff(boundaries_ns[1]).tolist() == np.diff(boundaries_ns[0]).tolist()
    assert exchanges_of(folded, 0) == exchanges_of(whole, 0)
    assert folded.data.memory == whole.data.memory
    told = folded.summary["trust"]["folding"]
    assert 0 < told["spread_share"] < 0.02
    assert told["spread_ns"] == first_exchange_apart_ns(whole)


def exchanges_of(run: Run, rank: int) -> dict[tuple[Any, ...], int]:
    """When each work of a rank ended. The sends of an exchange are one: the next exchange of others
    begins at other times than in a folded run, and in another order they are in each other's way.
    """
    ends_ns: dict[tuple[Any, ...], int] = {}
    for issue_ns, start_ns, end_ns, *what in spans_of(run, rank):
        work = (issue_ns, start_ns, *what)
        ends_ns[work] = max(ends_ns.get(work, 0), end_ns)
    return ends_ns


def first_exchange_apart_ns(run: Run) -> int:
    """How far from rank 0 another one has ended the first exchange, at most: all start that
    together. The first send of each pair is of it.
    """
    sends = [row for row in run.data.operations if row["kind"] == "send"]
    seen: set[tuple[int, ...]] = set()
    ends_ns: dict[int, int] = defaultdict(int)
    for row in sorted(sends, key=lambda row: row["moves_ns"]):
        pair = tuple(row["members"])
        if pair not in seen:
            seen.add(pair)
            for rank in pair:
                ends_ns[rank] = max(ends_ns[rank], *row["ends_ns"])
    return max(abs(end_ns - ends_ns[0]) for end_ns in ends_ns.values())


@pytest.mark.parametrize("method", ["allgather", "alltoall"])
def test_context_parallel(phantora: Phantora, method: str) -> None:
    """Ranks of a sequence have other halves of it to attend to, so replicas are what is folded."""
    command: list[str | Path] = [PROGRAMS / "context_parallel.py", method, "2"]
    whole = phantora.run(CLUSTER, command)
    folded = phantora.run([*CLUSTER, "--fold", "dp", "--mesh", "dp=2,cp=4"], command)
    assert (whole.exit_code, folded.exit_code) == (0, 0), folded.errors
    boundaries_ns = [find_iterations(run.data).boundaries_ns for run in (whole, folded)]
    assert np.diff(boundaries_ns[1]).tolist() == np.diff(boundaries_ns[0]).tolist()
    assert len(operations_of(whole, {0})) == len(operations_of(folded, {0})) > 10
    assert folded.data.memory == whole.data.memory


@pytest.mark.frameworks
@needs_deepspeed
@pytest.mark.parametrize(
    "words", [["1", "even"], ["2", "even"], ["3"]], ids=["zero1", "zero2", "zero3"]
)
def test_deepspeed(phantora: Phantora, words: list[str]) -> None:
    """ZeRO 3 shards each parameter, so that ranks do the same. ZeRO 1 and 2 give each rank some of
    the parameters, which may be alike.
    """
    whole = phantora.run(CLUSTER, [DEEPSPEED, *words])
    folded = phantora.run([*CLUSTER, "--fold", "1", "--witness", "1"], [DEEPSPEED, *words])
    assert (whole.exit_code, folded.exit_code) == (0, 0), folded.errors
    check_equal(whole, folded)


@pytest.mark.frameworks
@needs_deepspeed
def test_parameters_of_zero_that_are_not_alike(failing_phantora: Phantora) -> None:
    """A rank has a part of a weight, another one also a bias: they copy other gradients."""
    run = failing_phantora.run([*CLUSTER, "--fold", "1"], [DEEPSPEED, "2"])
    assert run.exit_code == 5
    assert re.search(
        r"rank \d copied \d+ bytes .*_deepspeed.py:\d+ main, where rank 0 ", run.errors
    )


# Four nodes of two, each on a leaf of its own, that share half as many uplinks.
FABRIC = """
base = "h100"
name = "narrow"
gpus_per_node = 2
[nic]
per_node = 2
[fabric]
leaf_downlinks = 2
spines = 2
oversubscription = 2.0
routing = "{routing}"
"""


@pytest.mark.parametrize(
    ("folding", "command"),
    [
        pytest.param(["--fold", "1"], [*LLAMA, "--fsdp", "4"], id="hsdp"),
        pytest.param(BLOCKS, [PIPELINES, "1F1B", "2", "2"], id="pp-dp-tp"),
        pytest.param(["--fold", "1"], [EXPERTS, "8", "splits"], id="experts"),
    ],
)
def test_absent_groups_are_in_the_way(
    phantora: Phantora, tmp_path: Path, folding: list[str], command: list[str | Path]
) -> None:
    """On a narrow fabric iterations last as without folding; where routes differ, as when both runs
    are simulated again with others, the interval has what they are apart.
    """
    clusters = {name: tmp_path / f"{name}.toml" for name in ("single", "ecmp")}
    for name, cluster in clusters.items():
        cluster.write_text(FABRIC.format(routing=name), encoding="utf-8")
    options = ["--cluster", str(clusters["single"]), "--ranks", "8"]
    whole = phantora.run(options, command)
    folded = phantora.run([*options, *folding, "--witness", "0"], command)
    assert (whole.exit_code, folded.exit_code) == (0, 0), folded.errors
    check_absent_groups(whole.summary, folded.summary, same_routes=True)
    elsewhere = []
    for number, run in enumerate((whole, folded)):
        made = tmp_path / f"{number}.phr"
        words = ["resimulate", str(run.path), "--cluster", str(clusters["ecmp"]), "-o", str(made)]
        assert main([*words, "--quiet"]) == 0
        elsewhere.append(dict(summarise(RunData(made))))
    check_absent_groups(*elsewhere, same_routes=False)


def check_absent_groups(
    whole: Mapping[str, Any], folded: Mapping[str, Any], *, same_routes: bool
) -> None:
    """Summaries of a run of all ranks and of a folded one."""
    exact_ns, folded_ns = (one["iterations"]["median_ns"] for one in (whole, folded))
    told = folded["trust"]["folding"]
    classes = folded["trust"]["interval"]["classes"]
    doubts = {one["class"]: one["longer"] for one in classes}
    assert told["images"] > 0
    if same_routes:
        assert folded_ns == exact_ns
    assert abs(folded_ns - exact_ns) <= doubts.get("folding", 0.0) * exact_ns
    assert ("folding" in doubts) == (told["spread_share"] > 0)


@pytest.mark.parametrize(
    ("what", "folding", "exit_code", "said"),
    [
        (
            *("uneven", ["--fold", "1"], 5),
            ["rank 7 launched the kernel", ", where rank 0 launched", "for_folding.py:"],
        ),
        ("shapes", ["--fold", "1"], 5, ["rank 7 ", ", where rank 0 ", "for_folding.py:"]),
        ("branch", ["--fold", "1"], 5, ["rank 7 ", ", where rank 0 ", "for_folding.py:"]),
        ("skips", ["--fold", "1"], 5, ["rank 7 ", "where rank 0 started 1 operation of NCCL"]),
        ("step", ["--fold", "1", "--expert-load", "zipf:1"], 2, ["--expert-load zipf:1 gives"]),
        ("group", ["--fold", "4"], 5, ["the group of ranks 0, 5 that rank 0 makes at", ".py:"]),
        (
            "send",
            ["--fold", "1", "--witness", "0"],
            5,
            ["rank 0 sends to rank 7 at", "folding.py:"],
        ),
        ("gather", ["--fold", "1", "--witness", "0"], 5, ["rank 0 sends to rank 7", "folding.py:"]),
        (
            *("gloo", ["--fold", "1", "--witness", "0"], 4),
            ["rank 0 sends to rank 7 by gloo, for which another rank stands", "for_folding.py:"],
        ),
        (
            *("uneven-gloo", ["--fold", "1", "--witness", "0"], 4),
            ["an exchange by gloo of parts that differ in size, at ", "for_folding.py:"],
        ),
    ],
)
def test_what_cannot_be_folded_ends_the_run(
    failing_phantora: Phantora, what: str, folding: list[str], exit_code: int, said: list[str]
) -> None:
    """The sentence names ranks and line."""
    program = PROGRAMS / "not_for_folding.py"
    run = failing_phantora.run([*CLUSTER, *folding], [program, what])
    assert run.exit_code == exit_code, run.errors
    for text in said:
        assert text in run.errors


def test_absent_ranks_have_the_values_of_those_that_stand_for_them(phantora: Phantora) -> None:
    """A witness has its own, and the report counts the collectives."""
    program = PROGRAMS / "values_of_ranks.py"
    run = phantora.run([*CLUSTER, "--fold", "2", "--witness", "1"], [program])
    assert run.exit_code == 0, run.errors
    ranks = [0, 1, 0, 1, 0, 1, 6, 1]
    printed = re.sub(r"\[rank\d\]: ", "", run.output).split("\n")
    assert f"{ranks} {float(sum(ranks) + 8)} {[10.0 * rank for rank in ranks]}" in printed
    assert str(ranks) in printed
    assert {f"rank {rank}: ['to {rank}']" for rank in (0, 1, 6)} <= set(printed)
    folding = run.summary["trust"]["folding"]
    assert sum(one["count"] for one in folding["stand_ins"]) > 2
    assert all("values_of_ranks.py" in one["site"] for one in folding["stand_ins"])


def test_groups_of_gloo(phantora: Phantora) -> None:
    """Ranks that do as those that stand for them get what they get in a run of all ranks."""
    program = PROGRAMS / "gloo_of_ranks.py"
    whole = phantora.run(CLUSTER, [program])
    folded = phantora.run([*CLUSTER, "--fold", "2", "--witness", "1"], [program])
    printed = [dict(re.findall(r"rank (\d): (.*)", run.output)) for run in (whole, folded)]
    assert printed[1].keys() == {"0", "1", "6"}
    assert all(printed[1][rank] == printed[0][rank] for rank in "01")
    told = folded.summary["trust"]["folding"]["stand_ins"]
    assert all("gloo_of_ranks.py" in one["site"] for one in told)
    assert sum(one["count"] for one in told) == 21


@pytest.mark.parametrize(("backends", "live"), [("cpu:gloo,cuda:nccl", (0, 4, 7)), ("nccl", (0,))])
def test_a_checkpoint_of_shards(
    phantora: Phantora, tmp_path: Path, backends: str, live: tuple[int, ...]
) -> None:
    """Ranks that run save and load theirs. How long gloo waits for sockets differs a little, and
    plans that are sent by NCCL differ in size.
    """
    program: list[str | Path] = [PROGRAMS / "folded_checkpoint.py", backends]
    whole = phantora.run(CLUSTER, [*program, str(tmp_path / "whole")])
    folding = ["--fold", "1", "--witness", str(len(live) - 1)]
    folded = phantora.run([*CLUSTER, *folding], [*program, str(tmp_path / "folded")])
    (first, saves, *others), found = (
        np.diff(find_iterations(run.data).boundaries_ns).tolist() for run in (whole, folded)
    )
    assert found == [first, pytest.approx(saves, rel=0.05), *others]
    saved = {path.name for path in (tmp_path / "folded").iterdir()}
    assert saved == {".metadata", *(f"__{rank}_0.distcp" for rank in live)}
    assert len(list((tmp_path / "whole").iterdir())) == 9
    assert "Those of ranks that are absent in this folded run are missing" in folded.errors
    (told,) = folded.summary["trust"]["folding"]["partial_checkpoints"]
    assert told["count"] == 1
    assert "folded_checkpoint.py:" in told["site"]


def test_a_dimension_whose_ranks_differ_is_not_folded(phantora: Phantora, run_whole: Whole) -> None:
    """A witness finds it, and all ranks run then; the last run counts."""
    whole = run_whole(DIFFERENT)
    run = phantora.run([*CLUSTER, "--fold", "auto"], DIFFERENT)
    assert run.exit_code == 0, run.errors
    assert run.summary["trust"]["folding"] is None
    assert run.data.run["digest"] == whole.data.run["digest"]
