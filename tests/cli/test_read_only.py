"""`--read-only`: a program writes where programs are expected to write, and nowhere else."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from phantora_py.isolation import probe

LIMIT_S = 60.0
# Not below /tmp, which is always writable.
needs_mounts = pytest.mark.skipif(
    "mnt" not in probe.probe().namespaces, reason="needs mount namespaces"
)


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory in the home directory, as a user's projects are."""
    made = Path(tempfile.mkdtemp(prefix="phantora-test-", dir=Path.home()))
    for name in ("project", "results", "other"):
        (made / name).mkdir()
    yield made
    shutil.rmtree(made)


def run(directory: Path, *options: str, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell script as two ranks."""
    words = [sys.executable, "-m", "phantora_py", "run", "--ranks", "2", "--quiet", *options]
    return subprocess.run(
        [*words, "-o", "run.phr", "--", "sh", "-c", script],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@needs_mounts
def test_files_are_protected(home: Path) -> None:
    """Working directory, temporary files, /dev and what was named; not what lies beside them."""
    script = """
        set -e
        touch here-$RANK ../results/there-$RANK /dev/shm/that-$RANK $(mktemp) /dev/null
        echo 0 > /proc/self/oom_score_adj
        if touch ../other/nowhere-$RANK; then exit 9; fi
        if touch ../nowhere-$RANK; then exit 9; fi
    """
    options = ["--read-only", "--writable", "../results"]
    done = run(home / "project", *options, script=script)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Read-only file system") == 4
    found = sorted(path.name for path in home.rglob("*-[01]"))
    assert found == ["here-0", "here-1", "there-0", "there-1"]


def test_everything_is_writable_unless_asked(home: Path) -> None:
    """An unchanged script finds the files it left, and leaves files where it did."""
    done = run(home / "project", script="touch ../other/$RANK")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (home / "other").iterdir()) == ["0", "1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--writable", "."], "--writable names exceptions from --read-only"),
        (["--read-only", "--writable", "absent"], "--writable absent: there is no such directory"),
        (["--read-only", "--writable", "/"], "protects nothing where all of / is to be writable"),
        (
            ["--read-only", "--isolation", "process"],
            "--read-only is not possible here: plain processes",
        ),
    ],
)
def test_what_cannot_be_had_is_said(tmp_path: Path, options: list[str], message: str) -> None:
    """A run that would not protect as asked does not start."""
    done = run(tmp_path, *options, script="true")
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


@needs_mounts
def test_caches_of_compilers_are_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user has PyTorch and Triton keep what they compile, there or not yet."""
    (home / "kernels").mkdir()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(home / "graphs" / "new"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(home / "kernels"))
    script = "touch $TORCHINDUCTOR_CACHE_DIR/a-$RANK $TRITON_CACHE_DIR/b-$RANK && ! touch ../c"
    done = run(home / "project", "--read-only", script=script)
    assert done.returncode == 0, done.stderr
    found = sorted(path.name for path in home.rglob("?-[01]"))
    assert found == ["a-0", "a-1", "b-0", "b-1"]
