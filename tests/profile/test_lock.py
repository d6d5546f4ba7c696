"""One executor at a time on a GPU."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from phantora_py.profile import lock


def test_the_second_waits_until_the_first_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It tells of it; on another GPU it need not wait."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(lock, "_LOOK_EVERY_S", 0.0)
    first, second, other = lock.GpuLock("a"), lock.GpuLock("a"), lock.GpuLock("b")
    told: list[str] = []
    with first.held(lambda: told.append("first")):
        with other.held(lambda: told.append("other")):
            assert told == []

        def release() -> None:
            told.append("second")
            if len(told) == 3:
                fcntl.flock(first._file, fcntl.LOCK_UN)

        with second.held(release):
            assert told == ["second"] * 3
            assert not first._try()


def test_the_lock_ends_with_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An executor that is killed over a kernel keeps nobody out."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = os.fork()
    if child == 0:
        assert lock.GpuLock("a")._try()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.GpuLock("a")._try()
