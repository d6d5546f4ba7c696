"""The user's command: what every rank is to run."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from phantora_py.launch.command import Form, is_launch, understand
from phantora_py.launch.interpreter import inspect_interpreter, note_untested
from phantora_py.launchers.launch import Place
from sim_server.errors import UsageError

MakePython = Callable[..., str]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    return "train.py"


def test_script(make_python: MakePython, script: str) -> None:
    """`python train.py` is one script with its arguments, for every rank."""
    python = make_python()
    command = understand([python, "-u", script, "--lr", "1"], {})
    program = command.program
    assert command.launch is None
    assert (program.form, program.target, program.arguments) == (Form.SCRIPT, script, ("--lr", "1"))
    assert program.argv == (python, "-u", script, "--lr", "1")
    assert program.name == "train"


@pytest.mark.parametrize("option", ["-m", "-mpkg"])
def test_module(make_python: MakePython, option: str) -> None:
    """`python -m pkg` is a module however it is written."""
    words = [make_python(), option, *(["pkg"] if option == "-m" else []), "x"]
    program = understand(words, {}).program
    assert (program.form, program.target, program.arguments) == (Form.MODULE, "pkg", ("x",))


def test_a_program_from_the_standard_input(
    make_python: MakePython, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python - x` is a text that every rank runs; an empty one is refused."""
    python = make_python()
    monkeypatch.setattr(sys, "stdin", io.StringIO("import torch\n"))
    program = understand([python, "-u", "-", "x"], {}).program
    assert (program.form, program.target) == (Form.TEXT, "import torch\n")
    assert program.arguments == ("x",)
    assert program.argv == (python, "-u", "-c", "import torch\n", "x")
    with pytest.raises(UsageError, match="is empty"):
        understand([python, "-"], {})
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="nothing is redirected there"):
        understand([python, "-"], {})


def test_the_launcher_before_torchrun(make_python: MakePython, script: str) -> None:
    """`python -m torch.distributed.launch` is taken apart like torchrun."""
    python = make_python()
    words = [python, "-m", "torch.distributed.launch", "--nproc-per-node", "2", script, "a"]
    command = understand(words, {})
    assert command.launch is not None
    assert command.launch.local_rank_argument
    assert command.program.argv == (python, "-u", script, "a")


def test_torchrun_as_a_module(make_python: MakePython, script: str) -> None:
    """`python -m torch.distributed.run` is torchrun of that interpreter."""
    python = make_python()
    words = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2", script, "a"]
    command = understand(words, {})
    assert command.launch is not None
    assert command.launch.processes_per_node == 2
    assert command.program.argv == (python, "-u", script, "a")


def test_launchers_that_start_python(make_python: MakePython, script: str) -> None:
    """What mpirun and srun start is a program like any other; a torchrun inside is the launch."""
    python = make_python()
    command = understand(["mpirun", "-np", "2", python, script, "a"], {})
    assert command.launch is not None
    assert (command.launch.ranks, command.program.target) == (2, script)
    run = [python, "-m", "torch.distributed.run", "--nproc-per-node", "4", "--nnodes", "2"]
    command = understand(["srun", "-N2", "--ntasks-per-node=1", *run, script], {})
    assert command.launch is not None
    assert (command.launch.launcher, command.launch.nodes) == ("torchrun", 2)
    place = Place(5, 8, 1, 2, 1, 4, ("node0", "node1"), "10.88.1.1", 29500)
    variables = command.launch.rank_variables(place)
    assert (variables["SLURM_PROCID"], variables["SLURM_NTASKS"]) == ("1", "2")
    with pytest.raises(UsageError, match="more than one torchrun on a node"):
        understand(["srun", "-n2", *run, script], {})
    with pytest.raises(UsageError, match="srun starts 3 nodes, and torchrun --nnodes says 2"):
        understand(["srun", "-N3", "-n3", *run, script], {})


def test_modules_of_launchers(make_python: MakePython, script: str) -> None:
    """`python -m deepspeed.launcher.runner` is deepspeed; a launcher's file is the launcher too."""
    python = make_python()
    words = [python, "-m", "deepspeed.launcher.runner", "--num_gpus", "2", script]
    command = understand(words, {})
    assert command.launch is not None
    assert command.launch.local_rank_argument == "--local_rank={}"
    command = understand([python, "/opt/bin/torchrun", "--nproc-per-node", "2", script], {})
    assert command.launch is not None
    assert command.launch.processes_per_node == 2
    assert command.program.target == script
    assert is_launch(words)
    assert not is_launch([python, script])
    assert not is_launch([python, "-c", "torchrun"])
    assert not is_launch(["bash", "run.sh"])


@pytest.mark.parametrize(
    "first_lines",
    ["#!{python}\n", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"\n'],
    ids=["plain", "long path"],
)
def test_torchrun_runs_its_own_interpreter(
    make_python: MakePython, script: str, tmp_path: Path, first_lines: str
) -> None:
    """The first line of the torchrun script says whose torch it is."""
    python = make_python()
    torchrun = tmp_path / "bin" / "torchrun"
    torchrun.write_text(first_lines.format(python=python) + "import re\n")
    torchrun.chmod(0o755)
    command = understand([str(torchrun), "-m", "pkg.train"], {})
    assert command.program.argv == (python, "-u", "-m", "pkg.train")


@pytest.mark.parametrize(
    "words",
    [
        ["jupyter", "nbconvert", "--execute", "a.ipynb"],
        ["jupyter-nbconvert", "--execute", "a.ipynb"],
        ["python", "-m", "nbconvert", "--execute", "a.ipynb"],
    ],
)
def test_notebooks_are_no_ranks(words: list[str]) -> None:
    """Their kernels are; that is said before anything is started."""
    with pytest.raises(UsageError, match="With --gpus 1 in place of --ranks"):
        understand(words, {})


def test_other_programs_are_executed_as_they_are() -> None:
    """A command that is no Python needs no torch."""
    program = understand(["sh", "-c", "true"], {}).program
    assert program.form is Form.OTHER
    assert not program.forkable
    assert Path(program.argv[0]).name == "sh"


def test_only_our_interpreter_is_forked(make_python: MakePython, script: str) -> None:
    """Another environment's modules must not be loaded into our process."""
    assert not understand([make_python(), script], {}).program.forkable


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "No command was given"),
        (["no-such-program"], "no program no-such-program in PATH"),
        (["PYTHON", "missing.py"], "script missing.py does not exist"),
        (["PYTHON"], "without a script or module"),
        (["PYTHON", "-m"], "-m needs a value"),
        (["PYTHON", "-m", "torch.distributed.run", "missing.py"], "missing.py does not exist"),
    ],
)
def test_a_command_that_cannot_start_is_explained(
    make_python: MakePython, words: list[str], message: str
) -> None:
    """Nothing is launched before the program is known to be there."""
    python = make_python()
    with pytest.raises(UsageError, match=message):
        understand([python if word == "PYTHON" else word for word in words], {})


@pytest.mark.parametrize(
    ("version", "cuda", "message"),
    [
        (None, None, "has no torch"),
        ("2.15.0+cpu", None, "a build without CUDA"),
        ("2.4.1+cu124", "12.4", "torch 2.4.1\\+cu124 for CUDA 12.4, which is not supported"),
        ("2.16.0+cu132", "13.2", "which is not supported"),
        ("2.8.0+cu118", "11.8", "which is not supported"),
    ],
)
def test_an_unsupported_torch_is_explained(
    make_python: MakePython, script: str, version: str | None, cuda: str | None, message: str
) -> None:
    """The message names what is there and what is supported."""
    python = make_python(version, cuda)
    with pytest.raises(UsageError, match=message) as caught:
        understand([python, script], {})
    assert "Supported: torch 2.5 to 2.15 built for CUDA 12.x, 13.x." in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuda = '13.2'\n", "has no __version__"),
        ("__version__ = 'main'\ncuda = '13.2'\n", "has __version__ = 'main'"),
        ("__version__ = (\n", "is damaged"),
    ],
)
def test_a_torch_that_does_not_tell_its_version_is_explained(
    make_python: MakePython, tmp_path: Path, script: str, text: str, message: str
) -> None:
    """Half an installation is the user's to mend."""
    python = make_python()
    (tmp_path / "site" / "torch" / "version.py").write_text(text)
    with pytest.raises(UsageError, match=message):
        understand([python, script], {})


def test_an_interpreter_that_does_not_run_is_explained(tmp_path: Path, script: str) -> None:
    """A broken interpreter is the user's to mend."""
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="does not run"):
        understand([str(python), script], {})


def test_our_own_interpreter_is_looked_at_without_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The usual case costs nothing."""
    monkeypatch.setattr(subprocess, "run", None)
    assert inspect_interpreter(sys.executable).ours


@pytest.mark.parametrize(("version", "notes"), [("2.15.1+cu132", 0), ("2.7.0+cu126", 1)])
def test_an_untested_torch_is_told(
    make_python: MakePython, script: str, version: str, notes: int
) -> None:
    """It runs all the same: releases between tested ones hardly differ."""
    command = understand([make_python(version, "12.8"), script], {})
    told = note_untested(command.program.torch)
    assert len(told) == notes
    assert all("2.7.0+cu126 has not been tested" in note for note in told)
