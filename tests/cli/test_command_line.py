"""The command line as a whole: where it starts, and how it ends."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import phantora_py
from phantora_py.cli import PIPE_CLOSED, main

LIMIT_S = 60.0
SCRIPT = Path(sysconfig.get_path("scripts")) / "phantora"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Our packages as a clone has them: without what is compiled."""
    ours = Path(phantora_py.__file__).parents[1]
    for name in ("phantora_py", "sim_server"):
        without = shutil.ignore_patterns("*.so", "shim", "__pycache__")
        shutil.copytree(ours / name, tmp_path / name, ignore=without)
    return tmp_path


@pytest.mark.parametrize("way", ["module", "script", "path"])
def test_a_checkout_is_not_in_the_way(checkout: Path, way: str) -> None:
    """In it, or with it on PYTHONPATH, the installed package runs."""
    installed = str(Path(phantora_py.__file__).parents[1])
    words = [sys.executable, "-m", "phantora_py"] if way == "module" else [str(SCRIPT)]
    if way != "module" and not SCRIPT.exists():
        pytest.skip("installed without its script")
    environment = dict(os.environ)
    if way == "path":
        environment["PYTHONPATH"] = str(checkout)
    done = subprocess.run(
        [*words, "run", "--quiet", "-o", "run.phr", "--", sys.executable, "-c", "print('done')"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, (installed, done.stderr)
    assert done.stdout == "done\n"


def test_a_checkout_alone_says_what_to_do(checkout: Path) -> None:
    """One sentence instead of a traceback."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "phantora_py", "cluster", "list"],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"phantora: usage: {checkout} is a checkout without its compiled")


@pytest.mark.parametrize("verb", [["cluster", "list"], ["coverage"], ["cluster", "show", "h100"]])
def test_a_closed_pipe_ends_quietly(tmp_path: Path, verb: list[str]) -> None:
    """As in `| head -1`: no traceback, and the exit code that a shell gives for SIGPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "phantora_py", *verb],
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.stderr == ""
    assert done.returncode == PIPE_CLOSED


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "--rnaks", "8", "--", "sh"], "there is no option --rnaks; did you mean --ranks?"),
        (["run", "--cluser=h100", "--", "sh"], "there is no option --cluser; did you mean --clus"),
        (["serve", "--tokenfile", "x"], "there is no option --tokenfile; did you mean --token-f"),
        (["report", "x.phr", "--htm1"], "there is no option --htm1; did you mean --html?"),
    ],
)
def test_an_option_with_a_typing_error(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nearest name of that verb's options is told."""
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"phantora: usage: {meant}")
    assert told.endswith(f" See: phantora {words[0]} --help\n")
