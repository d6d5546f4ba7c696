"""`phantora completion`."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from phantora_py.cli import main
from phantora_py.cli.commands import VERBS


def completions(script: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    line = " ".join(words)
    asked = (
        f"{script}\nCOMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
        f"COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}\n"
        # The function that the script has bash call.
        "name=$(complete -p phantora | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        f"$name phantora {shlex.quote(words[-1])} {shlex.quote(words[-2])}\n"
        "printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    done = subprocess.run(
        ["bash", "--norc"], input=asked, capture_output=True, text=True, timeout=60, check=False
    )
    return [one.strip() for one in done.stdout.splitlines()]


def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    """Verbs, verbs of verbs, options."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert set(VERBS) <= set(completions(script, "phantora", ""))
    assert completions(script, "phantora", "resi") == ["resimulate"]
    assert "--gpus-per-node" in completions(script, "phantora", "run", "--gpu")
    assert completions(script, "phantora", "cache", "pr") == ["prune"]
    assert "--failures" in completions(script, "phantora", "cache", "prune", "--")


def test_the_script_of_zsh_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Every verb is in it."""
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert script.startswith("#compdef phantora")
    for verb in VERBS:
        assert f"\n    {verb}:'" in script


def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without shtab one sentence tells the command that installs it."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("phantora: usage: the Python package shtab is missing: pip install ")
