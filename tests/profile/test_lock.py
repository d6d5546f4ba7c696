"""One executor at a time on a machine's GPUs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from phantora_py.profile import lock

# Reaches the library as a container does: mounted, in a mount namespace with its own /tmp.
CONTAINER = """
mount -t tmpfs none /mnt && touch /mnt/library && mount --bind "$1" /mnt/library || exit 9
mount -t tmpfs none /tmp && mount -o remount,bind,ro /mnt/library || exit 9
flock --nonblock --conflict-exit-code 3 /mnt/library true
"""


@pytest.fixture
def library(tmp_path: Path) -> str:
    """Stands for the driver's; as that is, read-only."""
    path = tmp_path / "libcuda.so.1"
    path.touch(0o444)
    return str(path)


def test_the_second_waits_until_the_first_is_done(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """It tells of it."""
    monkeypatch.setattr(lock, "_LOOK_EVERY_S", 0.0)
    first, second = lock.GpuLock(library), lock.GpuLock(library)
    told: list[str] = []
    with first.held(lambda: told.append("first")):
        assert told == []

        def release() -> None:
            told.append("second")
            if len(told) == 3:
                fcntl.flock(first._file, fcntl.LOCK_UN)

        with second.held(release):
            assert told == ["second"] * 3
            assert not first._try()


def test_the_lock_ends_with_its_process(library: str) -> None:
    """An executor that is killed over a kernel keeps nobody out."""
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.GpuLock(library)._try() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.GpuLock(library)._try()


def test_containers_exclude_each_other(library: str) -> None:
    """Also where they share no directory that they can write to."""
    if shutil.which("unshare") is None or shutil.which("flock") is None:
        pytest.skip("no unshare or no flock")
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", CONTAINER, "sh"]

    def code_in_a_container() -> int:
        return subprocess.run([*command, library], check=False, timeout=60).returncode

    if code_in_a_container() != 0:
        pytest.skip("no mount namespaces here")
    with lock.GpuLock(library).held(lambda: None):
        assert code_in_a_container() == 3
    assert code_in_a_container() == 0
