"""Reading a data file, and what is said about one that cannot be read."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import made_runs
import pytest
from made_runs import HOST_WAIT, KERNEL, make_run

import phantora_py
from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.profile.needs import signatures_of
from phantora_py.tables.flow_table import flow_rows
from sim_server.errors import UsageError
from sim_server.records import MarkerKind


def test_open(tmp_path: Path) -> None:
    """What a user's program calls: a path of either kind; errors as on the command line."""
    make_run(tmp_path / "a.phr", [[], []])
    assert phantora_py.open(tmp_path / "a.phr").ranks == 2
    assert phantora_py.open(str(tmp_path / "a.phr")).ranks == 2
    with pytest.raises(UsageError, match="no such file"):
        phantora_py.open(tmp_path / "b.phr")


def test_members_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Each view finds what docs/data-file.md promises."""
    data = make_run(
        tmp_path / "a.phr",
        [[(KERNEL, 5, 6, 9)], []],
        [(1, 7, MarkerKind.ITERATION, "i")],
        synthetic=[{"rank": 0, "site": "a.py:1 f", "bytes": 4, "count": 1}],
    )
    assert (data.ranks, data.run["cluster_name"]) == (2, "h100")
    assert data.spans[["issue_ns", "start_ns", "end_ns"]].tolist() == [(5, 6, 9)]
    assert data.markers == [(1, 7, 2, "i")]
    assert data.timings[0]["name"] == "k"
    assert data.operations == []
    assert data.memory["capacity_bytes"] == 80 << 30
    assert data.synthetic_reads[0]["site"] == "a.py:1 f"


def report_error(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    """What `phantora report` says; its exit code must be 2 and its output empty."""
    assert main(["report", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return " ".join(said.err.split())


def test_a_missing_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And how one is made."""
    path = tmp_path / "none.phr"
    assert report_error(capsys, path) == (
        f"phantora: usage: {path}: no such file; `phantora run -o FILE` writes one"
    )


def test_a_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is the user's mistake, not a fault of ours."""
    assert report_error(capsys, tmp_path) == (
        f"phantora: usage: {tmp_path} cannot be read: Is a directory"
    )


def test_a_file_of_another_kind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Text, for example."""
    path = tmp_path / "train.py"
    path.write_text("import torch\n" * 100)
    assert report_error(capsys, path).startswith(
        f"phantora: usage: {path} is not a data file of phantora, or is not complete"
    )


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, share: float
) -> None:
    """Part of a complete file is an error, and not a run that was killed."""
    path = tmp_path / "a.phr"
    make_run(path, [[(KERNEL, 5, 6, 9), (KERNEL, 9, 9, 12)]])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    words = "is cut short" if share else "is not a data file of phantora, or is not complete"
    assert words in report_error(capsys, path)


def test_a_run_that_was_killed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What it had written is reported, and the exit code is not 0."""
    path = tmp_path / "a.phr"
    make_run(path, [[(KERNEL, 5, 6, 9), (KERNEL, 9, 9, 12)]])
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"PK\x03\x04")])  # without run.json and the directory
    assert main(["report", str(path)]) == 2
    said = capsys.readouterr()
    assert "phantora was killed   what follows is what it had written by then" in said.out
    assert "peak memory is not known" in said.out
    assert "is not complete: phantora was killed before the run ended" in said.err
    assert RunData(path).spans["issue_ns"].tolist() == [5, 9]


def test_a_damaged_member(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The member is named; checksums notice what the format would not."""
    path = tmp_path / "a.phr"
    make_run(path)
    whole = bytearray(path.read_bytes())
    at = whole.index(b"memory.json") + len("memory.json")
    whole[at] ^= 0xFF
    path.write_bytes(whole)
    assert f"{path} is damaged: memory.json" in report_error(capsys, path)


@pytest.mark.parametrize("iteration", [0.5, "clock", f"optimizer:{'9' * 5000}"])
def test_an_iteration_that_is_none(tmp_path: Path, iteration: object) -> None:
    """What `--iteration` would not take is refused when the file is opened."""
    with pytest.raises(UsageError, match=r"a\.phr is damaged: settings\.json: iteration: "):
        make_run(tmp_path / "a.phr", settings={"iteration": iteration})


@pytest.mark.parametrize("use", [flow_rows, signatures_of])
def test_settings_that_lack_something(
    tmp_path: Path, use: Callable[[RunData], Iterable[object]]
) -> None:
    """Views that need all of them say which file is damaged; the others go on."""
    data = make_run(tmp_path / "a.phr", operations=[{"algorithm": "Ring", "protocol": "LL"}])
    with pytest.raises(UsageError, match=r"a\.phr is damaged: settings\.json: .*ranks"):
        list(use(data))


@pytest.mark.parametrize("name", ["run.json", "memory.json"])
def test_a_missing_member(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    """Some other zip archive, or a run whose server broke down."""
    make = tmp_path / "a.phr"
    with pytest.raises(UsageError, match=f"has no {name}"):
        make_run(make, leave_out=[name])
    assert f"it has no {name}" in report_error(capsys, make)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"name": "x"}', "is not a data file of phantora: its run.json is another's"),
        ("[1]", "is not a data file of phantora: its run.json is another's"),
        ("<html>", "is damaged: run.json: it is not JSON: Expecting value"),
    ],
)
def test_the_archive_of_another_program(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, message: str
) -> None:
    """That has a member of the same name."""
    path = tmp_path / "a.phr"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run.json", content)
    assert f"{path} {message}" in report_error(capsys, path)


def test_a_file_of_another_version(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Which version it has and which can be read."""
    path = tmp_path / "a.phr"
    for schema, age in ((1, "an earlier"), (3, "a later")):
        with pytest.raises(UsageError):
            make_run(path, run={"schema": schema})
        assert report_error(capsys, path) == (
            f"phantora: usage: {path} was written by {age} version of phantora (schema {schema}, "
            "this one reads 2); install that version to read it"
        )


@pytest.mark.parametrize("wait", [0, 200])
def test_a_wait_of_no_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: int) -> None:
    """Views ask for its name."""
    monkeypatch.setitem(made_runs._IDS, HOST_WAIT, wait)
    with pytest.raises(UsageError, match=r"a\.phr is damaged: .*span 0 is of no kind of wait"):
        make_run(tmp_path / "a.phr", [[(HOST_WAIT, 5, 6, 9)]])


def test_spans_are_read_once(tmp_path: Path) -> None:
    """They are large."""
    make_run(tmp_path / "a.phr", [[(KERNEL, 5, 6, 9)]])
    data = RunData(tmp_path / "a.phr")
    assert data.spans is data.spans
