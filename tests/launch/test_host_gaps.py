"""Gaps of a measured run: what makes them usable, and what they become."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "report"))
from made_runs import make_run

from phantora_py.launch.host_gaps import choose_host_gaps, family_of, load_host_gaps
from phantora_py.launch.options import RunOptions
from phantora_py.launch.processor import choose_cpu
from sim_server._engine import MalformedInput
from sim_server.cluster import load_cluster
from sim_server.errors import UsageError
from sim_server.log.host_gaps import HostGapLog, weighted_median

VERSIONS = {"python": "3.11.9", "torch": "2.15.0", "cuda": "13.2"}
KERNEL = '{"kind": "kernel", "name": "_ZN3addILi4EE", "grid": [%d, 1, 1], "scalars": [[0, 8]]}'
FAMILY = '{"kind": "kernel", "name": "_ZN3addILi4EE", "grid": ['
MEASURED = [
    {"key": KERNEL % 1, "calls": 30, "gap_ns": 4000},
    {"key": KERNEL % 2, "calls": 10, "gap_ns": 8000},
    {"key": "cudart cudaMemcpyAsync", "calls": 5, "gap_ns": 9000},
]


def made(path: Path, model: str = "measured", measured: Any = MEASURED) -> Path:
    """The data file of a run."""
    replayed = HostGapLog().to_dict()["replayed"]
    make_run(path, run={"host_time": model}, host_gaps={"measured": measured, "replayed": replayed})
    return path


def test_gaps_are_known_by_key_and_by_family(tmp_path: Path) -> None:
    """A family's gap is the mean over the calls of its signatures."""
    gaps = load_host_gaps(made(tmp_path / "m.phr"), VERSIONS)
    assert gaps.by_key == {
        KERNEL % 1: 4000,
        KERNEL % 2: 8000,
        FAMILY: 5000,
        "cudart cudaMemcpyAsync": 9000,
    }
    assert gaps.to_text().splitlines()[0] == "9000 cudart cudaMemcpyAsync"
    assert gaps.origin["file"] == "m.phr"


def test_a_family_ends_at_the_first_number_outside_strings() -> None:
    """Names keep their digits."""
    assert family_of(KERNEL % 7) == FAMILY
    library = '{"kind": "library", "library": "cudnn9", "operation": "a2", "type": "bf16", "n": '
    assert family_of(library + "16}") == library
    assert family_of('{"no": "numbers"}') == '{"no": "numbers"}'


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    """Each message says what the file is and how to make a right one."""
    fixed = made(tmp_path / "f.phr", "fixed")
    empty = made(tmp_path / "e.phr", measured=[])
    good = made(tmp_path / "m.phr")
    for path, versions, said in (
        (tmp_path / "none.phr", VERSIONS, "no such file"),
        (fixed, VERSIONS, "a run with host time fixed, which has no gaps to replay"),
        (empty, VERSIONS, "holds no host gaps: no rank of that run came to its end"),
        (good, VERSIONS | {"torch": "2.16.0"}, "PyTorch 2.15.0, but the program runs with 2.16.0"),
        (good, VERSIONS | {"python": "3.12.1"}, "Python 3.11, but the program runs with 3.12"),
        (good, VERSIONS | {"cuda": ""}, "CUDA 13.2, but the program runs with \\(none\\)"),
    ):
        with pytest.raises(UsageError, match=said):
            load_host_gaps(path, versions)


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """Recorded needs a file, and only recorded takes one."""
    good = made(tmp_path / "m.phr")
    with pytest.raises(UsageError, match="recorded needs --host-gaps FILE"):
        choose_host_gaps(RunOptions(("x",), host_time="recorded"), VERSIONS)
    with pytest.raises(UsageError, match="but the host time is measured"):
        choose_host_gaps(RunOptions(("x",), host_time="measured", host_gaps=good), VERSIONS)
    assert choose_host_gaps(RunOptions(("x",)), VERSIONS) is None
    chosen = choose_host_gaps(RunOptions(("x",), host_time="recorded", host_gaps=good), VERSIONS)
    assert chosen is not None
    assert chosen.by_key[FAMILY] == 5000


def test_ranks_are_joined_by_median() -> None:
    """One rank that was slow does not make the others slow."""
    log = HostGapLog()
    for gap_ns in (5000, 5100, 90000):
        log.add_measured([("k", 10, gap_ns)])
    log.add_replayed({"signature": [3, 30], "family": [0, 0], "call": [1, 5], "fixed": [2, 8]})
    log.add_replayed({"signature": [3, 30], "family": [0, 0], "call": [1, 5], "fixed": [0, 0]})
    told = log.to_dict()
    assert told["measured"] == [{"key": "k", "calls": 30, "gap_ns": 5100}]
    assert told["replayed"]["signature"] == {"calls": 6, "charged_ns": 60}
    assert told["replayed"]["fixed"] == {"calls": 2, "charged_ns": 8}
    assert weighted_median([(1, 1), (9, 3)]) == 9


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"works": [("nothing", 1, 1)]}, "has counted 'nothing'"),
        ({"calls": [("nothing", 1, 1)]}, "has counted 'nothing'"),
        ({"stacks": [(0, "main", 1), (3, "step", 1)]}, "the caller of 'step' after it"),
    ],
)
def test_a_rank_that_counts_what_there_is_not(told: dict[str, Any], words: str) -> None:
    """It is named, and nothing of it is kept."""
    log = HostGapLog()
    empty = {"works": [], "calls": [], "functions": [], "elsewhere_ns": 0, "stacks": []}
    with pytest.raises(MalformedInput, match=f"^rank 3 .*{words}"):
        log.add(3, {"kind": "counted_work", **empty, **told})
    assert log.to_dict() == HostGapLog().to_dict()


def test_processors_are_for_counted_host_time() -> None:
    """And samples for measured."""
    cluster = load_cluster("h100")
    with pytest.raises(UsageError, match="--cpu is for --host-time counted"):
        choose_cpu(RunOptions(("x",), cpu="genoa"), cluster)
    with pytest.raises(UsageError, match="--host-samples is for --host-time measured"):
        choose_cpu(RunOptions(("x",), host_samples=True), cluster)
    assert choose_cpu(RunOptions(("x",)), cluster) is None


@pytest.mark.parametrize(
    ("name", "cpu"),
    [
        ("a100", "rome"),
        ("h100", "sapphire-rapids"),
        ("h200", "sapphire-rapids"),
        ("b200", "emerald-rapids"),
        ("gb200", "grace"),
    ],
)
def test_builtin_clusters_have_the_processor_of_their_servers(name: str, cpu: str) -> None:
    """No option is needed."""
    chosen = choose_cpu(RunOptions(("x",), host_time="counted"), load_cluster(name))
    assert chosen is not None
    assert chosen.name == cpu


def test_the_clusters_processor_is_taken(tmp_path: Path) -> None:
    """Where no option names one."""
    (tmp_path / "mine.toml").write_text('base = "h100"\n[host]\ncpu = "nowhere"\n')
    cluster = load_cluster(str(tmp_path / "mine.toml"))
    with pytest.raises(UsageError, match="no processor profile 'nowhere'"):
        choose_cpu(RunOptions(("x",), host_time="counted"), cluster)
    assert choose_cpu(RunOptions(("x",), host_time="counted", cpu="genoa"), cluster) is not None
