"""Interpreters that hold what a test wants them to hold."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

MakePython = Callable[..., str]


@pytest.fixture
def make_python(tmp_path: Path) -> MakePython:
    """Makes `python3` that answers phantora's question with a torch of the given versions."""

    def make(version: str | None = "2.15.0+cu132", cuda: str | None = "13.2") -> str:
        origin = None
        if version is not None:
            torch = tmp_path / "site" / "torch"
            torch.mkdir(parents=True)
            (torch / "version.py").write_text(
                f"from typing import Optional\n__version__ = {version!r}\n"
                f"cuda: Optional[str] = {cuda!r}\n"
            )
            origin = str(torch / "__init__.py")
        python = tmp_path / "bin" / "python3"
        python.parent.mkdir()
        answer = json.dumps([str(python), str(tmp_path), "3.11.7", origin, []])
        python.write_text(f"#!/bin/sh\necho '{answer}'\n")
        python.chmod(0o755)
        return str(python)

    return make
