"""The data file: complete, or to be read as far as it goes, or not there."""

import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phantora_py.agent.datafile import DataFile
from phantora_py.data.broken_archive import BrokenArchive
from sim_server.errors import UsageError

LIMIT_S = 60.0


def test_members_are_kept_as_they_come(tmp_path: Path) -> None:
    """What is known at the start comes first, run.json last; the digest is told."""
    path = tmp_path / "a.phr"
    data = DataFile(path, {"command": ["a"]}, "{}")
    data.write("spans/000000.npy", b"abcd")
    data.write("digest", b"0123")
    assert not path.exists()
    data.complete({"schema": 1})
    with zipfile.ZipFile(path) as archive:
        names = ["start.json", "settings.json", "spans/000000.npy", "digest", "run.json"]
        assert archive.namelist() == names
        assert json.loads(archive.read("start.json")) == {"command": ["a"]}
        assert archive.read("spans/000000.npy") == b"abcd"
        assert json.loads(archive.read("run.json")) == {"schema": 1}
    assert data.digest == "0123"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_run_leaves_no_file(tmp_path: Path) -> None:
    """A file that looks like a run's must be a whole one; an older one stays."""
    path = tmp_path / "a.phr"
    path.write_text("older")
    data = DataFile(path, {}, "{}")
    data.write("spans/000000.npy", b"ab")
    data.discard()
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "older"


def test_a_full_disk_is_told_to_whoever_writes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members are written in the background; an error there must not pass for nothing."""
    data = DataFile(tmp_path / "a.phr", {}, "{}")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    data.write("spans/000000.npy", b"ab")
    with pytest.raises(UsageError, match="No space left"):
        data.complete({})
    with pytest.raises(UsageError, match="No space left"):
        data.write("spans/000001.npy", b"ab")
    monkeypatch.undo()
    data.discard()
    assert list(tmp_path.iterdir()) == []


def test_who_brings_more_than_can_be_written_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk must slow the run down and not fill the memory; nothing is lost."""
    data, free = DataFile(tmp_path / "a.phr", {}, "{}"), threading.Event()
    write = zipfile.ZipFile.writestr
    brought: list[int] = []

    def wait_and_write(*arguments: Any) -> None:
        assert free.wait(LIMIT_S)
        write(*arguments)

    def bring() -> None:
        for number in range(50):
            data.write(f"spans/{number:06}.npy", b"ab")
            brought.append(number)

    monkeypatch.setattr(zipfile.ZipFile, "writestr", wait_and_write)
    bringer = threading.Thread(target=bring, daemon=True)
    bringer.start()
    bringer.join(0.5)
    assert bringer.is_alive()
    assert len(brought) < 20
    free.set()
    bringer.join(LIMIT_S)
    data.complete({})
    with zipfile.ZipFile(tmp_path / "a.phr") as archive:
        assert len(archive.namelist()) == 53


def test_an_archive_that_broke_off_has_its_whole_members(tmp_path: Path) -> None:
    """Wherever it broke off, what was written before can be read, and nothing else."""
    path, part = tmp_path / "a.phr", tmp_path / "part.phr"
    contents = {f"pieces/{number}": os.urandom(200 + number) * 3 for number in range(5)}
    data = DataFile(path, {"schema": 2}, "{}")
    for name, content in contents.items():
        data.write(name, content)
    data.complete({})
    whole = path.read_bytes()
    seen = set()
    for end in range(0, len(whole), 97):
        part.write_bytes(whole[:end])
        broken = BrokenArchive(part)
        found = [name for name in broken.namelist() if name in contents]
        seen.add(len(found))
        assert found == list(contents)[: len(found)]
        assert all(broken.read(name) == contents[name] for name in found)
    assert seen == set(range(6))


def test_a_damaged_member_is_noticed(tmp_path: Path) -> None:
    """The checksum says so, or the compressed stream does."""
    path = tmp_path / "a.phr"
    data = DataFile(path, {}, "{}")
    data.write("noise", os.urandom(500))
    data.complete({})
    whole = bytearray(path.read_bytes()[:700])
    whole[whole.index(b"noise") + 100] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(zipfile.BadZipFile, match="noise"):
        BrokenArchive(path).read("noise")
