"""Runs that a notebook starts: their figures, tables, comparisons and errors."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import psutil
import pytest
from compared_runs import US, write_run

import phantora_py as phantora
from phantora_py.api import RunOptions
from phantora_py.cli import main
from phantora_py.cli import run as run_verb
from sim_server.errors import InternalError, LowTrust, RankFailed, UsageError

EXAMPLE = Path(__file__).parents[2] / "examples/train_gpt_ddp.py"
SMALL = ["--layers", "1", "--steps", "3", "--batch", "1", "--sequence", "64"]


class Cells(HTMLParser):
    """The texts of a table's cells, and of the sentences beneath, with the tags that there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Notes the tag."""
        self.tags.add(tag)
        if tag in ("th", "td", "p"):
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        """A piece of the text of the cell."""
        self.texts[-1] += data


TAGS = {"div", "table", "thead", "tbody", "tr", "th", "td", "span", "p"}


@pytest.mark.torch
def test_run_of_an_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures are those of the report of its data file; the notebook sees what ranks print."""
    monkeypatch.chdir(tmp_path)
    run = phantora.run([sys.executable, EXAMPLE, *SMALL], cluster="h100", ranks=2)
    assert "step 2: loss" in capsys.readouterr().err
    assert run.path == next(tmp_path.glob("phantora-*.phr"))
    assert main(["report", str(run.path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert json.loads(json.dumps(run.summary)) == report
    assert run.iteration_ns == report["iterations"]["median_ns"]
    low, high = run.iteration_interval_ns or (0, 0)
    assert 0 < low < (run.iteration_ns or 0) < high
    assert run.peak_memory_bytes == max(report["memory"]["peak_device_bytes"])
    cells = Cells(run._repr_html_()).texts
    assert cells[cells.index("GPUs") + 1] == "2 h100"
    assert cells[cells.index("data file") + 1] == str(run.path)
    assert "speed-up" not in cells


def test_opened_runs_compare(tmp_path: Path) -> None:
    """A data file is the same object as a started run, and the first is the baseline."""
    slow = phantora.open(write_run(tmp_path / "slow.phr", [40 * US] * 3))
    fast = phantora.open(write_run(tmp_path / "fast.phr", [20 * US] * 3))
    assert (slow.iteration_ns, fast.iteration_ns) == (40 * US, 20 * US)
    assert (slow.iteration_interval_ns, slow.peak_memory_bytes) == (None, 4 << 30)
    compared = slow.compare(fast, per_iteration=["4x8 tokens"], price=["3.6"])
    assert [ratio and ratio["value"] for ratio in compared.speed_ups] == [2.0]
    assert compared.figures["runs"][1]["cost"] is not None
    cells = Cells(compared._repr_html_()).texts
    assert "1 (the first)" in cells
    assert "2.00" in cells
    assert str(compared).startswith("| run | GPUs |")
    with pytest.raises(UsageError, match="is not an amount"):
        slow.compare(fast, per_iteration=["many"])
    with pytest.raises(TypeError, match="at least one other run"):
        slow.compare()


def test_figures_are_not_broken(tmp_path: Path) -> None:
    """Lines end before a range and within it, and in titles between words; a run's texts are beside
    their names, whatever the notebook's own style of tables is.
    """
    slow, fast = (
        phantora.open(write_run(tmp_path / f"{one}.phr", [one * US, (one + 1) * US] * 3))
        for one in (40, 20)
    )
    plain = slow.compare(fast)._repr_html_().replace(' style="white-space: nowrap"', "")
    assert re.search(
        r"<span>[0-9.]+</span> <span>\([0-9.]+</span> <span>to [0-9.]+\)</span>", plain
    )
    assert re.search(r"<td><span>4[01](\.\d)? us</span></td>", plain)
    assert "<span>virtual</span> <span>iteration</span>" in plain
    assert '<td style="text-align: left">' in slow._repr_html_()


def test_names_are_escaped(tmp_path: Path) -> None:
    """Of files and commands: none is a tag."""
    command = ["python", "<script>alert(1)</script>.py", "a&b"]
    runs = [
        phantora.open(
            write_run(tmp_path / f"<b>{name}&lt;.phr", [40 * US] * 3, run={"command": command})
        )
        for name in ("one", "two")
    ]
    for text in (runs[0]._repr_html_(), runs[0].compare(runs[1])._repr_html_()):
        cells = Cells(text)
        assert cells.tags <= TAGS
        assert any("<b>one&lt;" in one for one in cells.texts)
    assert any("<script>" in one for one in Cells(runs[0]._repr_html_()).texts)


@pytest.mark.parametrize("forced", [False, True])
def test_failed_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forced: bool) -> None:
    """The error of the run, with what the rank said last, also where colours are asked for."""
    if forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    script = "echo phantora: a line: of ours; echo last words; exit 3"
    file = tmp_path / "failed.phr"
    with pytest.raises(RankFailed, match="ended with exit code 3") as caught:
        phantora.run(["sh", "-c", script], ranks=1, output=file)
    assert caught.value.exit_code == 4
    assert str(caught.value).startswith("Rank 0 ended")
    assert str(caught.value).endswith("last words")
    assert phantora.open(file).summary["exit_code"] == 4
    assert "exit code 4" in phantora.open(file)._repr_html_()


@pytest.mark.torch
def test_doubted_run(tmp_path: Path) -> None:
    """A run that ends well and is not trusted, as its option asks."""
    command = [sys.executable, str(EXAMPLE), *SMALL]
    with pytest.raises(LowTrust, match="values that no rule produced") as caught:
        phantora.run(command, ranks=2, strict=True, output=tmp_path / "a.phr")
    assert caught.value.exit_code == 6
    assert phantora.open(tmp_path / "a.phr").summary["exit_code"] == 0


def test_refused_option(tmp_path: Path) -> None:
    """A value that there is not: no data file either."""
    with pytest.raises(UsageError, match="did you mean 'h100'") as caught:
        phantora.run(["true"], cluster="h1000", output=tmp_path / "a.phr")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "a.phr").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluser": "h100"}, "no option 'cluser'; did you mean 'cluster'"),
        ({"gpu_per_node": 8}, "did you mean 'gpus_per_node'"),
        ({"zzzz": 1}, "there are cluster, ranks"),
        ({"until_steady": "yes"}, "until_steady is True or False, not 'yes'"),
        ({"writable": "out"}, "writable is a list, as \\['out'\\]"),
        ({"ranks": True}, "ranks is a text, a number or a path, not True"),
        ({"cluster": ["h100", "a100"]}, "cluster is a text, a number or a path"),
    ],
)
def test_wrong_options(options: dict[str, Any], said: str) -> None:
    """Nothing is started."""
    with pytest.raises(TypeError, match=said):
        phantora.run(["true"], **options)


def test_command_is_a_list() -> None:
    """A text would be taken for its letters."""
    command: Any = "python train.py"
    with pytest.raises(TypeError, match="takes a list of words"):
        phantora.run(command)


def test_options_are_those_of_the_command_line() -> None:
    """All of them, and of the same kinds; JSON and a live table are not for notebooks."""
    parser = argparse.ArgumentParser()
    run_verb.add_arguments(parser)
    kinds = {
        max(action.option_strings, key=len)[2:].replace("-", "_"): bool
        if isinstance(action, argparse._StoreTrueAction)
        else Sequence
        if isinstance(action, argparse._AppendAction)
        else None
        for action in parser._actions
        if action.help != argparse.SUPPRESS
    }
    for name in ("help", "json", "live"):
        del kinds[name]
    hints = get_type_hints(RunOptions)
    assert {
        name: bool if hint is bool else Sequence if get_origin(hint) is Sequence else None
        for name, hint in hints.items()
    } == kinds


def test_environment_and_options_arrive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they would on the command line, lists and flags too; one rank is heard."""
    run = phantora.run(
        ["sh", "-c", 'echo "$NCCL_ALGO $GREETING"'],
        env={"NCCL_ALGO": "Tree", "GREETING": "hello"},
        ranks=2,
        rank=["0"],
        memory_kinds=True,
        read_only=True,
        writable=[tmp_path],
        output=tmp_path / "a.phr",
    )
    assert capsys.readouterr().err == "Tree hello\n"
    assert list(run.log(0).values()) == [b"Tree hello\n"]
    assert run.summary["ranks"] == 2


def test_killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing itself: the error has how it ended and what was said last."""
    script = "echo that was all >&2; kill -9 $$"
    monkeypatch.setattr("phantora_py.api.started.module_command", lambda _: ["sh", "-c", script])
    with pytest.raises(InternalError, match="the run ended with -9: that was all") as caught:
        phantora.run(["true"], output=tmp_path / "a.phr")
    assert caught.value.exit_code == -9


def test_interrupt_ends_the_run(tmp_path: Path) -> None:
    """The stop button: nothing goes on."""

    def stop() -> None:
        deadline_s = time.monotonic() + 30
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    # Tests that run in the background have it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=stop).start()
    script = f"touch {tmp_path}/begun; exec sleep 300"
    try:
        with pytest.raises(KeyboardInterrupt):
            phantora.run(["sh", "-c", script], ranks=1, output=tmp_path / "a.phr")
    finally:
        signal.signal(signal.SIGINT, before)
    children = psutil.Process().children(recursive=True)
    assert not [one for one in children if "sleep" in one.name()]
