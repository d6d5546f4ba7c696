"""Which configurations a sweep's file has, and what it may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from phantora_py.sweep.plan import Configuration, read_plan
from sim_server.errors import UsageError


def plan(tmp_path: Path, text: str, command: str) -> list[Configuration]:
    """Of a file with this text."""
    path = tmp_path / "s.toml"
    path.write_text(text)
    return read_plan(path, command.split())


def test_a_grid_is_all_combinations_and_the_list_follows(tmp_path: Path) -> None:
    """In the order of the file, named by what differs; a name may be given."""
    text = """
    fixed = {steps = 3}
    grid = {batch = [1, 2], run.ranks = [4, 8]}
    [[configuration]]
    batch = 16
    [[configuration]]
    name = "last"
    batch = 32
    """
    found = plan(tmp_path, text, "train.py --batch={batch} --steps {steps}")
    assert [one.name for one in found] == [
        *("batch=1 ranks=4", "batch=1 ranks=8", "batch=2 ranks=4", "batch=2 ranks=8"),
        *("batch=16", "last"),
    ]
    assert found[1].command == ("train.py", "--batch=1", "--steps", "3")
    assert (found[1].run, found[4].run) == ({"ranks": "8"}, {})


def test_placeholders(tmp_path: Path) -> None:
    """Several in a word, options of the run, lists as words or none; other braces stay."""
    text = """
    [grid]
    flags = [[], ["--tp", "2"]]
    on = [true]
    [fixed]
    a = "x y"
    run.ranks = 8
    env.NCCL_ALGO = "Ring"
    """
    command = "p {flags} --o={a}{run.ranks} {on} {{a}} {} {1} ${env.NCCL_ALGO}"
    first, second = plan(tmp_path, text, command)
    words = ("--o=x y8", "true", "{a}", "{}", "{1}", "$Ring")
    assert first.command == ("p", *words)
    assert second.command == ("p", "--tp", "2", *words)
    assert second.environment == {"NCCL_ALGO": "Ring"}
    assert [one.name for one in (first, second)] == ["flags=none", "flags=--tp 2"]
    assert first.fill("{run.ranks}x4 tokens", "--per-iteration") == "8x4 tokens"


def test_a_command_that_resimulates(tmp_path: Path) -> None:
    """Is told from one to run."""
    text = 'grid = {cluster = ["h100", "slow.toml"]}'
    command = "resimulate a.phr --cluster {cluster}"
    assert [one.resimulates for one in plan(tmp_path, text, f"phantora {command}")] == [True] * 2
    assert [one.resimulates for one in plan(tmp_path, text, f"other {command}")] == [False] * 2


@pytest.mark.parametrize(
    ("text", "command", "message"),
    [
        ("grid = {a = [1]}", "p {a} {batch}", "configuration 'the only one' has no value for {bat"),
        ("grid = {batch = [1]}", "p {batch} {bach}", "did you mean 'batch'?"),
        ("grid = {a = [1]}", "p", "the command has no {a}"),
        ("", "p", "has no configuration: give [grid] lists"),
        ("grid = {a = []}", "p {a}", "has no configuration"),
        ("grid = {a = 1}", "p {a}", "[grid] a is not a list of values; write [1]"),
        ("grid = {a = [1, 1]}", "p {a}", "two configurations 'the only one'"),
        (
            "grid = {run.rank = [1]}",
            "p",
            "'rank' is no option that a sweep sets; did you mean 'ran",
        ),
        ("gird = {a = [1]}", "p {a}", "unknown table 'gird'"),
        ("grid = {a = {b = 1}}", "p {a}", "'a' is a table; only 'run' and 'env' are"),
        ("fixed = {run = 1}\ngrid = {a = [1]}", "p {a}", "'run' is a table"),
        ("fixed = 1", "p", "[fixed] is not a table"),
        (
            "grid = {a = [[1, 2]]}",
            "p x{a}",
            "{a} is a list of words, and stands within a word: x{a",
        ),
        ("grid = {", "p", "is not TOML"),
        (
            f"grid = {{a = {[*range(101)]}, b = {[*range(100)]}}}",
            "p {a} {b}",
            "10,100 combinations",
        ),
        ('grid = {run.until-steady = ["yes"]}', "p", "'until-steady' is true or false"),
        ('grid = {run.ranks = ["many"]}', "p", "'ranks' is a number"),
        (
            "grid = {run.ranks = [2]}",
            "phantora resimulate a.phr",
            "a resimulation takes no options of phantora run",
        ),
    ],
)
def test_what_a_file_may_not_say(tmp_path: Path, text: str, command: str, message: str) -> None:
    """The file, the key and what would be right."""
    with pytest.raises(UsageError) as caught:
        plan(tmp_path, text, command)
    assert message in str(caught.value)
