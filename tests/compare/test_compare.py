"""`phantora compare` of data files whose figures are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compared_runs import PROFILE, US, certain_members, write_run
from conforming import check_conforms
from made_runs import rank_memory

from phantora_py.cli import main


def compared(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    """The JSON of a comparison."""
    assert main(["compare", "--json", *map(str, words)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check_conforms(found, "comparison")
    return found


def said(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    """Everything that is printed, lines joined."""
    assert main(["compare", *map(str, words)]) == code
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_figures_of_each_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Iteration, speed-up, throughput, exposed communication, memory and cost, by hand."""
    slow = write_run(tmp_path / "slow.phr", [40 * US] * 3, communicates_ns=20 * US)
    fast = write_run(tmp_path / "fast.phr", [20 * US] * 3, communicates_ns=5 * US)
    words = ["--per-iteration", "4x8 tokens", "--price", "3.6"]
    first, this = compared(capsys, slow, fast, *words)["runs"]
    assert first["iteration"]["interval_ns"] == [40 * US, 40 * US]
    assert (first["name"], first["speed_up"]) == ("slow", None)
    assert this["speed_up"] == {"value": 2.0, "low": 2.0, "high": 2.0, "distinguishable": True}
    assert (first["exposed_communication_ns"], this["exposed_communication_ns"]) == (
        20 * US,
        5 * US,
    )
    assert this["throughput"]["per_s"] == pytest.approx(32 / 20e-6)
    assert this["cost"]["per_iteration"] == pytest.approx(3.6 * 2 * 20e-6 / 3600)
    assert this["cost"]["per_million"] == pytest.approx(3.6 * 2 * 20e-6 / 3600 / 32 * 1e6)
    assert (this["peak_memory_bytes"], this["fits"]) == (4 << 30, True)


def test_runs_that_are_no_full_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Work that took no time is in the table, in the notes and in the JSON, by run."""
    lacking = [{"rank": 0, "device": 1, "processes": 2}]
    whole = write_run(tmp_path / "whole.phr", [40 * US] * 3)
    part = write_run(tmp_path / "part.phr", [20 * US] * 3, run={"unsimulated": lacking})
    found = compared(capsys, whole, part)
    assert [run["unsimulated"] for run in found["runs"]] == [[], lacking]
    notes = [note for note in found["notes"] if "not a full model" in note]
    assert len(notes) == 1
    assert notes[0].startswith("part is not a full model: 2 processes that rank 0 started")
    text = said(capsys, whole, part)
    assert "not full" in text
    assert notes[0] in text
    page = tmp_path / "page.html"
    said(capsys, whole, part, "--html", page)
    assert notes[0].partition(" (")[0] in page.read_text()
    assert "not full" not in said(capsys, whole, whole)


def test_speed_up_counts_the_work_of_an_iteration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Twice the tokens in the same time is twice as fast."""
    paths = [write_run(tmp_path / f"{name}.phr", [40 * US] * 2) for name in "ab"]
    words = ["--per-iteration", "100 tokens", "--per-iteration", "200 tokens"]
    found = compared(capsys, *paths, *words)
    assert found["runs"][1]["speed_up"]["value"] == 2.0


def test_what_changed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Flags, environment, cluster and versions; kernels and collectives, per rank and iteration."""
    one = write_run(tmp_path / "a.phr", [40 * US] * 2)
    settings = {"gpu": PROFILE, "nccl_environment": {"NCCL_ALGO": "Tree"}}
    changed = {
        "command": ["python", "train.py", "--tp", "2"],
        "cluster": {"gpu": "h100", "nic": {"per_node": 4}},
        "host_time": "off",
    }
    other = write_run(
        tmp_path / "b.phr",
        [40 * US] * 4,
        kernel=1,
        communicates_ns=5 * US,
        ranks=4,
        run=changed,
        settings=settings,
    )
    (changes,) = compared(capsys, one, other)["changes"]
    assert [(each["group"], each["name"]) for each in changes["inputs"]] == [
        *(("command", "--tp"), ("environment", "NCCL_ALGO")),
        *(("layout", "gpus_per_node"), ("layout", "ranks")),
        *(("cluster", "nic.per_node"), ("host", "host_time")),
    ]
    nothing = {"count": 0.0, "time_ns": 0.0}
    once = {"count": 1.0, "time_ns": 10.0 * US}
    by_class = {each["class"]: (each["first"], each["this"]) for each in changes["kernel_classes"]}
    assert by_class == {"gemm": (once, nothing), "attention": (nothing, once)}
    (collective,) = changes["collectives"]
    assert (collective["kind"], collective["participants"]) == ("all_reduce", 4)
    assert collective["this"] == {
        **{"count": 1.0, "size_bytes": 1 << 20, "moving_ns": 5.0 * US, "waiting_ns": 1.0 * US}
    }


@pytest.mark.parametrize("told", [[["dp", 2, True], ["tp", 2, False]], [["dp", 4, True]]])
def test_ranks_that_stand_for_others_count_as_all_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, told: list[Any]
) -> None:
    """A folded run against one of all ranks: nothing changed but that."""
    whole = write_run(tmp_path / "whole.phr", [40 * US] * 2, communicates_ns=5 * US, ranks=4)
    live = 2 if len(told) > 1 else 1
    folded = write_run(
        tmp_path / "folded.phr",
        [40 * US] * 2,
        communicates_ns=5 * US,
        ranks=4,
        run={"fold": {"mesh": told, "witnesses": []}},
        memory={"capacity_bytes": 80 << 30, "per_rank": [rank_memory()] * live},
    )
    found = compared(capsys, whole, folded)
    (changes,) = found["changes"]
    assert (changes["kernels"], changes["collectives"]) == ([], [])
    shown = f"dp={told[0][1]}"
    inputs = [(each["name"], each["first"], each["this"]) for each in changes["inputs"]]
    assert inputs == [("folded", "no", shown)]
    assert found["runs"][1]["speed_up"]["value"] == 1
    assert found["runs"][1]["breakdown_ns"] == found["runs"][0]["breakdown_ns"]


def test_nodes_with_other_gpus_are_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each GPU at its own price, no cost without one; of a group of nodes what is different."""
    rates = {"nic": {"per_node": 8}}
    groups = [{"gpu": "h100", "nodes": 1, **rates}, {"gpu": "a100", "nodes": 1, **rates}]
    mixed = {"cluster": {"gpu": "h100", **rates, "node_groups": groups}, "gpus_per_node": 1}
    one = write_run(tmp_path / "alike.phr", [3600 * US] * 2)
    other = write_run(tmp_path / "mixed.phr", [3600 * US] * 2, run=mixed | {"nodes": 2})
    found = compared(capsys, one, other, "--price", "h100=3", "--price", "a100=1")
    first, this = found["runs"]
    assert (first["gpus"], this["gpus"]) == ({"h100": 2}, {"h100": 1, "a100": 1})
    assert (this["gpu"], this["cost"]["per_gpu_hour"]) == ("h100 + a100", 2.0)
    assert this["cost"]["per_iteration"] == pytest.approx(4e-6)
    inputs = {each["name"]: each["this"] for each in found["changes"][0]["inputs"]}
    assert inputs["node_groups 0"] == "nodes 1"
    assert inputs["node_groups 1"] == "gpu a100, nodes 1"
    assert compared(capsys, one, other, "--price", "h100=3")["runs"][1]["cost"] is None
    assert "1 h100 + 1 a100" in said(capsys, one, other)


def test_overlapping_runs_and_what_the_range_leaves_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The words are in the table, the accuracy of the models in a note."""
    one = write_run(tmp_path / "a.phr", [40 * US, 44 * US])
    other = write_run(tmp_path / "b.phr", [42 * US, 45 * US])
    text = said(capsys, one, other)
    assert "0.966, not distinguishable" in text
    assert "which gives each median with 50 % confidence or more; it leaves out how" in text
    assert "the models are, which is not known." in text


def test_errors_of_the_models_cancel_only_on_the_same_models(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One more kernel of the same class is told apart; on another GPU, or of another class it may
    be the models' error.
    """
    one = write_run(tmp_path / "a.phr", [40 * US] * 9, **certain_members())
    same = write_run(tmp_path / "b.phr", [42 * US] * 9, computes_ns=11 * US, **certain_members())
    (figures,) = compared(capsys, one, same)["runs"][1:]
    assert figures["speed_up"]["distinguishable"] is True
    text = said(capsys, one, same)
    assert "runs are on the same models, so that what they have in common cancels" in text
    gpu = {"cluster": {"gpu": "a100"}}
    other = write_run(tmp_path / "c.phr", [42 * US] * 9, run=gpu, **certain_members())
    (figures,) = compared(capsys, one, other)["runs"][1:]
    assert figures["speed_up"]["distinguishable"] is False
    assert "runs of different GPUs (h100, a100) err each in their own way" in said(
        capsys, one, other
    )
    attends = write_run(tmp_path / "d.phr", [42 * US] * 9, kernel=1, **certain_members())
    (figures,) = compared(capsys, one, attends)["runs"][1:]
    assert figures["speed_up"]["distinguishable"] is False


def test_runs_of_different_work_are_compared_and_it_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Other programs; other flags, unless the user tells the work; a run that failed."""
    one = write_run(tmp_path / "a.phr", [40 * US] * 2)
    other = write_run(tmp_path / "b.phr", [40 * US] * 2, run={"command": ["python", "eval.py"]})
    assert "The runs are of different programs: train.py, eval.py." in said(capsys, one, other)
    flag = write_run(
        tmp_path / "c.phr", [40 * US] * 2, run={"command": ["python", "train.py", "--batch", "2"]}
    )
    assert "whether or not they do the same work" in said(capsys, one, flag)
    assert "same work" not in said(capsys, one, flag, "--per-iteration", "8 samples")
    failed = write_run(
        tmp_path / "d.phr",
        [40 * US] * 2,
        run={"exit_code": 4, "message": "Rank 1 ended with exit code 1."},
        memory={
            "capacity_bytes": 80 << 30,
            "per_rank": [rank_memory(oom=[{"asked_bytes": 1, "free_bytes": 0, "site": "x"}])] * 2,
        },
    )
    text = said(capsys, one, failed)
    assert "out of memory" in text
    assert "d did not finish: exit code 4: Rank 1 ended with exit code 1." in text


def test_runs_without_iterations(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Have no figures of time, and it is said; a gate on them is not met."""
    one = write_run(tmp_path / "a.phr", [40 * US] * 2)
    empty = write_run(tmp_path / "b.phr", [])
    assert "b has no iteration after its first" in said(capsys, one, empty)
    text = said(capsys, one, empty, "--gate", "iteration_time<=2", code=6)
    assert "b: iteration_time cannot be judged, because it is not known of both runs." in text


def test_gates(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Met at the limit itself; else exit code 6, with the value and the limit."""
    one = write_run(tmp_path / "a.phr", [40 * US] * 2)
    other = write_run(tmp_path / "b.phr", [50 * US] * 2, communicates_ns=US)
    assert "gate iteration_time<=1.25 b: 1.25 met" in said(
        capsys, one, other, "--gate", "iteration_time <= 1.25"
    )
    words = ["--gate", "iteration_time<=1.24", "--gate", "peak_memory<=1"]
    text = said(capsys, one, other, *words, code=6)
    assert "short of what was asked for: b: iteration_time is 1.25 times that of a, and the" in text
    assert "the limit is 1.24." in text
    assert "gate peak_memory<=1 b: 1 met" in text
    text = said(capsys, one, other, "--gate", "exposed_communication<=3", code=6)
    assert "b: exposed_communication is above 0, which it is in a." in text
    failed = write_run(tmp_path / "c.phr", [40 * US] * 2, run={"exit_code": 4})
    text = said(capsys, one, failed, "--gate", "iteration_time<=1", code=6)
    assert "c: iteration_time is not judged, because c did not finish." in text


def test_markdown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Has a row for each run and gate, whatever characters names have; gates decide as ever."""
    one = write_run(tmp_path / "a.phr", [40 * US] * 2)
    other = write_run(tmp_path / "b|<i>_.phr", [50 * US] * 2)
    words = [one, other, "--markdown", "--gate", "iteration_time<=1.2", "--gate", "peak_memory<=1"]
    assert main(["compare", *map(str, words)]) == 6
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    tables = [line for line in lines if line.startswith("|")]
    head, rule, first, second, gates, gates_rule, time, memory = tables
    assert head.startswith("| run | ")
    assert first.startswith("| a | ")
    assert second.startswith(r"| b\|\<i\>\_ | ")
    for row in (rule, first, second.replace(r"\|", "")):
        assert row.count("|") == head.count("|")
    cells = dict(zip(head.split("|"), first.split("|"), strict=True))
    assert cells[" virtual iteration "] == " 40.0 us "
    assert gates == "| gate | run | ratio to the first | verdict |"
    assert gates_rule == "| --- | --- | --- | --- |"
    assert time == r"| iteration\_time\<=1.2 | b\|\<i\>\_ | 1.25 | not met |"
    assert memory == r"| peak\_memory\<=1 | b\|\<i\>\_ | 1 | met |"
    # A table needs an empty line before it.
    assert lines[lines.index(gates) - 1] == ""
    assert "is 1.25 times that of a" in printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gate", "speed<=1"], "'speed<=1' is not a gate"),
        (
            ["--gate", "iteration_time<1"],
            "of iteration_time, exposed_communication, waiting_for_ranks, peak_memory",
        ),
        (["--gate", "iteration_time<=1.0.2"], "is not a gate"),
        (["--price", "h10=2"], "no run has a GPU of that name; did you mean 'h100'?"),
        (["--price", "cheap"], "'cheap' is not a price per GPU-hour"),
        (["--price", "=2"], "'=2' is not a price per GPU-hour"),
        (["--per-iteration", "64x tokens"], "'64x tokens' is not an amount"),
        (["--per-iteration", "0 tokens"], "is not an amount"),
        (["--per-iteration", "1 tokens"] * 3, "was given 3 times for 2 runs"),
        (["--per-iteration", "1 token", "--per-iteration", "1 sample"], "counts sample, token"),
    ],
)
def test_options_that_cannot_be_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], message: str
) -> None:
    """Exit code 2, with an example of what can."""
    one = write_run(tmp_path / "a.phr", [40 * US] * 2)
    assert message in said(capsys, one, one, *words, code=2)


def test_one_file_is_not_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What there is for it is named; a missing file is an error as for every view."""
    one = write_run(tmp_path / "a.phr", [40 * US] * 2)
    assert "`phantora report` shows one" in said(capsys, one, code=2)
    assert "no such file" in said(capsys, one, tmp_path / "none.phr", code=2)


def test_the_same_history_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """By its digest; files of one name in two directories keep their paths."""
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    paths = [write_run(tmp_path / name / "a.phr", [40 * US] * 2) for name in "xy"]
    found = compared(capsys, *paths)
    assert [run["name"] for run in found["runs"]] == list(map(str, paths))
    assert f"The same history as {paths[0]}, to the nanosecond: {paths[1]}." in found["notes"]
    assert found["changes"][0]["inputs"] == []
