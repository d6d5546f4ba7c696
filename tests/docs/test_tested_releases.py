"""The releases of Python and PyTorch that are tested are the same wherever they are named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from phantora_py.launch.interpreter import TESTED_TORCH

ROOT = Path(__file__).parents[2]


def pairs() -> list[tuple[str, str]]:
    """What `nox -s versions` trains with; nox itself is not needed for it."""
    for statement in ast.parse((ROOT / "noxfile.py").read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="VERSIONS")], value=value):
                found: list[tuple[str, str]] = ast.literal_eval(value)
                return found
    raise AssertionError("noxfile.py has no VERSIONS")


def test_the_releases_that_count_as_tested_are_trained_with() -> None:
    """A release that is used without a warning is one that `nox -s versions` trains with."""
    releases = [tuple(map(int, torch.split(".")[:2])) for _, torch in pairs()]
    assert tuple(releases) == TESTED_TORCH


def test_the_readme_names_what_is_tested() -> None:
    """The releases of PyTorch, the oldest Python and the newest."""
    text = " ".join((ROOT / "README.md").read_text().split())
    *earlier, last = [".".join(map(str, release)) for release in TESTED_TORCH]
    assert f"(tested: {', '.join(earlier)} and {last}, for CUDA " in text
    oldest, *_, newest = [python for python, _ in pairs()]
    assert f"on Python {oldest} to {newest}" in text
    assert f"Python {oldest} or later" in text


def test_the_oldest_python_is_the_oldest_that_is_tested() -> None:
    """An older Python is refused when phantora is installed."""
    required = re.search(r'requires-python = ">=(\S+)"', (ROOT / "pyproject.toml").read_text())
    assert required is not None
    assert required[1] == pairs()[0][0]
