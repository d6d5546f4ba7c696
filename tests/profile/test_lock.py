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


def test_others_can_lock_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the umask of whoever made the file: to lock it they have to open it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0o077)
    try:
        lock.GpuLock("a")
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_lock_ends_with_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An executor that is killed over a kernel keeps nobody out."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.GpuLock("a")._try() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.GpuLock("a")._try()
