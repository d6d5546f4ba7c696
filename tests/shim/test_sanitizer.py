"""What `nox -s sanitizers` relies on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_run import FakeRun
from native_programs import compile_cxx


def test_planted_fault_is_found(tmp_path: Path) -> None:
    """In a process that loads our core a sanitizer sees what the program does, and ends it."""
    if "-fsanitize=" not in os.environ.get("CXXFLAGS", ""):
        pytest.skip("not built with sanitizers: nox -s sanitizers")
    binary = compile_cxx([Path(__file__).with_name("planted_fault.cc")], tmp_path / "fault", "-g")
    result = FakeRun(tmp_path).start(str(binary))
    assert result.returncode != 0
    assert "data race" in result.stderr or "heap-buffer-overflow" in result.stderr
