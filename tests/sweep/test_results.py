"""What is run again, what is not, and which configurations are best."""

from __future__ import annotations

import dataclasses
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import pytest

from phantora_py.machine.installation import own_build
from phantora_py.sweep.pareto import Costs, front
from phantora_py.sweep.plan import Configuration
from phantora_py.sweep.results import Result, Results, inputs_of
from sim_server.errors import UsageError


def configuration(*command: str, **run: str) -> Configuration:
    """One without an environment."""
    return Configuration("one", command, run, {}, {})


def test_the_key_is_that_of_the_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command, environment, options, content of the cluster's file and of files in the command, and
    our own files; the name and what the shell has else are not among them.
    """
    results = Results(tmp_path / "results")
    script, cluster = tmp_path / "train.py", tmp_path / "c.toml"
    script.write_text("1")
    cluster.write_text('base = "h100"\n')
    one = configuration("python", str(script), cluster=str(cluster))

    def key(of: Configuration) -> str:
        return results.key(inputs_of(of))

    keys = [key(one)]
    monkeypatch.setenv("HISTFILE", "x")
    assert key(dataclasses.replace(one, name="other")) == keys[0]
    keys.append(key(dataclasses.replace(one, command=(*one.command, "--x"))))
    keys.append(key(dataclasses.replace(one, environment={"A": "1"})))
    keys.append(key(dataclasses.replace(one, run={**one.run, "ranks": "2"})))
    script.write_text("2")
    keys.append(key(one))
    cluster.write_text('base = "h100"\nnic.bandwidth = "100 Gb/s"\n')
    keys.append(key(one))
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    keys.append(key(one))
    text = distribution("phantora").read_text("RECORD") or ""
    assert "phantora_py/sweep/results.py,sha256=" in text
    monkeypatch.setattr(PathDistribution, "read_text", lambda *_: text.replace("sha256=", "="))
    own_build.cache_clear()
    keys.append(key(one))
    own_build.cache_clear()
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("exit_code", "again", "again_with_retry"),
    [(0, False, False), (4, False, True), (5, False, True), (2, True, True), (130, True, True)],
)
def test_ends_that_last(
    tmp_path: Path, exit_code: int, again: bool, again_with_retry: bool
) -> None:
    """A failure of the program is a result; a mistake or an interruption is none."""
    results = Results(tmp_path)
    results.data("k").write_bytes(b"")
    result = Result("one", exit_code, "why", exit_code == 4, 1.5, results.data("k"))
    results.keep("k", {}, result)
    found = results.find("k", "renamed", retry=False)
    assert (found is None) is again
    assert (results.find("k", "renamed", retry=True) is None) is again_with_retry
    if found is not None:
        assert found == dataclasses.replace(result, name="renamed", cached=True)
    results.data("k").unlink()
    assert results.find("k", "renamed", retry=False) is None


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    """Is found before anything is run, and named."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file/results cannot be written to: Not a directory"):
        Results(tmp_path / "file" / "results")


def test_a_record_that_is_none(tmp_path: Path) -> None:
    """Somebody else's file is not taken for a result, and not overwritten."""
    results = Results(tmp_path)
    (tmp_path / "k.json").write_text("{")
    with pytest.raises(UsageError, match=r"k\.json cannot be read"):
        results.find("k", "one", retry=False)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([(1, 1, 1)], [True]),
        ([(1, 2, 1), (2, 1, 1), (2, 2, 1)], [True, True, False]),
        ([(1, 1, 8), (1, 1, 4)], [False, True]),
        ([(1, 1, 1), (1, 1, 1)], [True, True]),
        ([None, (9, 9, 9)], [False, True]),
    ],
)
def test_the_front_is_what_nothing_beats(costs: list[Costs | None], expected: list[bool]) -> None:
    """Equals do not beat each other; what did not finish is never on it."""
    assert front(costs) == expected
