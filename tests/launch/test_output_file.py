"""Files that commands write: refused before the work is done, whole at its end."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from phantora_py.cli import main
from phantora_py.launch import sweeper
from sim_server.errors import UsageError
from sim_server.files.output_file import (
    partial_path,
    put_in_place,
    require_output,
    require_output_directory,
    write_file,
)


def make_socket(path: Path) -> None:
    """A file that is a socket."""
    os.mknod(path, stat.S_IFSOCK | 0o600)


def make_device(path: Path) -> None:
    """A device of our own, as /dev/null is one."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices are made by root")


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a directory": os.mkdir,
    "a device": make_device,
    "a socket": make_socket,
}


@pytest.fixture(params=KINDS)
def special(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """Something that no file may replace, and what it is called."""
    path = tmp_path / "special"
    KINDS[request.param](path)
    return request.param, path


def test_only_files_are_replaced(special: tuple[str, Path]) -> None:
    """Neither before the work nor after it, and also where a link leads there."""
    kind, path = special
    link = path.with_name("link")
    link.symlink_to(path)
    whole = path.with_name("whole")
    whole.touch()
    before = os.lstat(path)
    for place in (path, link):
        with pytest.raises(UsageError, match=f"-o {place} cannot be written: it is {kind}"):
            require_output(place, "-o")
        with pytest.raises(UsageError, match=f"-o {place} cannot be written: it is {kind}"):
            write_file(place, b"x", "-o")
        with pytest.raises(UsageError, match=f"it is {kind}"):
            put_in_place(whole, place)
    assert not sweeper.is_replaceable(str(path))
    assert (os.lstat(path).st_mode, os.lstat(path).st_ino) == (before.st_mode, before.st_ino)
    assert sorted(one.name for one in path.parent.iterdir()) == ["link", "special", "whole"]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "-o", "OUT", "--", "true"],
        ["run", "--quiet", "--cache", "OUT", "--", "true"],
        ["cluster", "show", "h100", "--svg", "OUT"],
        ["calibrate", "log", "-o", "OUT"],
        ["cache", "import", "OUT", "lines"],
        ["cache", "ls", "OUT"],
        ["sweep", "plan.toml", "--svg", "OUT", "--", "true"],
        ["sweep", "plan.toml", "--html", "OUT", "--", "true"],
        ["bench", "all_reduce", "--cluster", "OUT"],
    ],
)
def test_every_command_refuses_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    """Exit code 2 and one sentence that names the place, before anything is run; a pipe stays."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("OUT")
    Path("log").write_text("", encoding="utf-8")
    Path("lines").write_text("", encoding="utf-8")
    Path("plan.toml").write_text("[[configuration]]\n", encoding="utf-8")
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "OUT" in said
    assert "Traceback" not in said
    assert stat.S_ISFIFO(os.lstat("OUT").st_mode)


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file that it leads to is replaced, and the link stays."""
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to("there/file")
    require_output(link, "-o")
    write_file(link, b"new", "-o")
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"new"
    assert partial_path(link) == tmp_path / "there" / ".file.partial"


def test_what_is_read_is_not_written(tmp_path: Path) -> None:
    """Under whatever name."""
    path = tmp_path / "a"
    path.touch()
    with pytest.raises(UsageError, match="is what is read"):
        require_output(tmp_path / "." / "a", "-o", [path])


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """A disk that is full half-way does not cost the old content. Here it is a limit on files."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
    try:
        with pytest.raises(UsageError, match="File too large"):
            write_file(path, bytes(1 << 20), "-o")
        with pytest.raises(UsageError, match="File too large"):
            require_output(path, "-o")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"old"]


def test_directories(tmp_path: Path, special: tuple[str, Path]) -> None:
    """One that is still to be made is good; below a file there is none."""
    require_output_directory(tmp_path / "a" / "b", "--log-dir")
    assert not (tmp_path / "a").exists()
    kind, path = special
    if kind != "a directory":
        with pytest.raises(UsageError, match=f"--log-dir .*: {path} is not a directory"):
            require_output_directory(path / "b", "--log-dir")


def test_the_sweeper_leaves_devices(tmp_path: Path) -> None:
    """What phantora was killed over does not replace what has taken the place meanwhile."""
    partial, place = tmp_path / "partial", tmp_path / "place"
    partial.write_bytes(b"half")
    os.mkfifo(place)
    directory = tmp_path / "run"
    directory.mkdir()
    words = [sys.executable, "-I", "-S", sweeper.__file__, *map(str, (directory, partial, place))]
    subprocess.run(words, check=True, input=b"", timeout=60)
    assert stat.S_ISFIFO(os.lstat(place).st_mode)
    assert partial.read_bytes() == b"half"
