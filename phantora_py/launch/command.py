"""Understands the user's command: what every rank is to run, and with which interpreter.

The command of a launcher (`phantora_py.launchers`) is taken apart; any other command is what each
rank runs.
"""

import enum
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import phantora_py
from phantora_py.launch.interpreter import Interpreter, Torch, check_torch, inspect_interpreter
from phantora_py.launchers.launch import FoundGpus, Launch
from phantora_py.launchers.recognise import (
    is_launcher,
    is_python_launcher,
    launcher_of_module,
    read_launch,
)
from sim_server.errors import UsageError

PROGRAMS = Path(phantora_py.__file__).parent / "rank" / "bin"
"""What a simulated node has instead of this machine's."""
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
# They start a process for each notebook.
_NOTEBOOKS = ("jupyter", "nbconvert", "papermill")
# Options of the interpreter itself that take a value, and those that change nothing in a forked
# rank.
_VALUE_OPTIONS = ("-W", "-X", "--check-hash-based-pycs")
_HARMLESS_OPTIONS = ("-u",)


class Form(enum.Enum):
    """How a program is given to Python, if it is."""

    SCRIPT = "script"
    MODULE = "module"
    TEXT = "text"
    OTHER = "other"


@dataclass(frozen=True)
class Program:
    """What every rank runs. `argv` starts it as it stands; `target` is a script, module, text or
    file.
    """

    argv: tuple[str, ...]
    form: Form
    target: str
    arguments: tuple[str, ...]
    interpreter: Interpreter | None
    ordinary: bool = (
        True  # no option of the interpreter and no archive that only a fresh start can honour
    )

    @property
    def torch(self) -> Torch | None:
        """The one whose calls are to be expected: ours, if the program is not Python itself."""
        return (self.interpreter or inspect_interpreter(sys.executable)).torch

    @property
    def versions(self) -> dict[str, str]:
        """Of Python, PyTorch and its CUDA; empty for what there is not."""
        torch = self.interpreter.torch if self.interpreter else None
        return {
            "python": self.interpreter.version if self.interpreter else "",
            "torch": torch.version if torch else "",
            "cuda": (torch.cuda or "") if torch else "",
        }

    @property
    def name(self) -> str:
        """A short name, for file names and messages."""
        match self.form:
            case Form.SCRIPT:
                return Path(self.target).stem
            case Form.MODULE:
                return self.target.split(".")[-1]
            case _:
                return Path(self.argv[0]).stem

    @property
    def forkable(self) -> bool:
        """Whether a process forked from our interpreter can take this program's place."""
        return (
            self.form is not Form.OTHER
            and self.ordinary
            and self.interpreter is not None
            and self.interpreter.ours
        )


@dataclass(frozen=True)
class Command:
    """The user's command, understood. `launch` is None for a command that starts one rank."""

    words: tuple[str, ...]
    program: Program
    launch: Launch | None

    def __str__(self) -> str:
        return shlex.join(self.words)


def understand(
    words: Sequence[str],
    environment: Mapping[str, str],
    gpus: Callable[[], FoundGpus] = lambda: FoundGpus(1, {}),
    own_ranks: int | None = None,
) -> Command:
    """Takes the words after `--` apart and checks that the program can be started.

    `gpus`: what a launcher finds that starts a process for each. `own_ranks`: of how many GPUs the
    program starts ranks itself, if it is no launcher's.

    Raises: UsageError for a missing program or script, or an interpreter without a supported torch.
    """
    if not words:
        raise UsageError("No command was given. Usage: phantora run [OPTIONS] -- COMMAND ...")
    found = _launcher_of(words, environment)
    if found is None:
        if own_ranks is None:
            _refuse_kernels(words)
        launch = None if own_ranks is None else _own_launch(own_ranks)
        return Command(tuple(words), _plain_program(words), launch)
    return _launched(words, *found, environment, gpus)


def _refuse_kernels(words: Sequence[str]) -> None:
    """Raises: UsageError for a program that runs a notebook, in a process that it starts for it."""
    name = os.path.basename(words[0])
    if _PYTHON.fullmatch(name):
        _, rest = _interpreter_options(words[1:])
        name = rest[1] if rest[:1] == ("-m",) and len(rest) > 1 else ""
    if re.split(r"[-.]", name)[0] in _NOTEBOOKS:
        raise UsageError(
            f"{name} runs a notebook in a kernel, which is the process that uses the GPU. With "
            "--gpus 1 in place of --ranks that is the rank."
        )


def _own_launch(gpus: int) -> Launch:
    return Launch(
        "the program",
        program=(),
        nodes=1,
        processes_per_node=gpus,
        torchrun_variables=False,
        own_ranks=True,
        size_option="--gpus",
    )


def is_launch(words: Sequence[str]) -> bool:
    """Whether the words are the command of a launcher. Raises: UsageError for words of Python that
    start nothing.
    """
    name = os.path.basename(words[0])
    if not _PYTHON.fullmatch(name):
        return is_launcher(name)
    _, rest = _interpreter_options(words[1:])
    if not rest or rest[0].startswith("-"):
        module = rest[1] if rest[:1] == ("-m",) and len(rest) > 1 else ""
        return launcher_of_module(module) is not None
    return is_python_launcher(os.path.basename(rest[0]))


def _launcher_of(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[tuple[str, ...], str] | None:
    """The launcher's own words, beginning with its name, and its interpreter, if it is in Python.

    None: the words are no launcher's.
    """
    name = os.path.basename(words[0])
    if is_python_launcher(name):
        interpreter = environment.get("PYTHON_EXEC") if name == "torchrun" else None
        interpreter = interpreter or _launcher_interpreter(words[0])
        return (name, *words[1:]), interpreter
    if is_launcher(name):
        return (name, *words[1:]), ""
    if not _PYTHON.fullmatch(name):
        return None
    _, rest = _interpreter_options(words[1:])
    if rest[:1] == ("-m",) and len(rest) > 1:
        stands_for = launcher_of_module(rest[1])
        if stands_for is not None:
            return (*stands_for, *rest[2:]), _executable(words[0])
    elif rest and is_python_launcher(os.path.basename(rest[0])):
        return (os.path.basename(rest[0]), *rest[1:]), _executable(words[0])
    return None


def _launched(
    words: Sequence[str],
    launcher: Sequence[str],
    interpreter: str,
    environment: Mapping[str, str],
    gpus: Callable[[], FoundGpus],
) -> Command:
    launch = read_launch(launcher, environment, interpreter, gpus)
    if launch.python:
        mode = ("-m",) if launch.module else ()
        program = _checked(_python_program(interpreter, ("-u", *mode, *launch.program)))
        return Command(tuple(words), program, launch)
    found = _launcher_of(launch.program, environment)
    if found is None:
        return Command(tuple(words), _plain_program(launch.program), launch)
    inner = _launched(words, *found, environment, gpus)
    assert inner.launch is not None
    return replace(inner, launch=_within(launch, inner.launch))


def _within(outer: Launch, inner: Launch) -> Launch:
    """A launcher that another one starts on each node: `srun -N 2 torchrun ...`.

    Raises: UsageError if the other one starts it more than once on a node.
    """
    if outer.processes_per_node != 1:
        raise UsageError(
            f"{outer} starts more than one {inner} on a node, and each would start ranks of its "
            f"own. Start one on each: {outer} {outer.size_option} 1."
        )
    if inner.nodes is not None and outer.nodes != inner.nodes:
        raise UsageError(
            f"{outer} starts {outer.nodes} nodes, and {inner} {inner.nodes_option} says "
            f"{inner.nodes}; give the same number."
        )
    return replace(
        inner,
        nodes=outer.nodes,
        variables={**outer.variables, **inner.variables},
        rank_variables=lambda place: {
            **outer.rank_variables(place.of_node()),
            **inner.rank_variables(place),
        },
        notes=(*outer.notes, *inner.notes),
    )


def _plain_program(words: Sequence[str]) -> Program:
    """What no launcher starts."""
    if _PYTHON.fullmatch(os.path.basename(words[0])):
        return _checked(_python_program(_executable(words[0]), words[1:]))
    return _other_program(words)


def _interpreter_options(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of Python itself, and what follows: -m, -c, or a script, and its arguments."""
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "-":
        word = words[position]
        if word[:2] in ("-m", "-c"):
            break
        position += 2 if word in _VALUE_OPTIONS else 1
    return tuple(words[:position]), tuple(words[position:])


def _python_program(interpreter: str, words: Sequence[str]) -> Program:
    """Takes `python [options] [-m module | -c text | script] arguments` apart."""
    options, rest = _interpreter_options(words)
    if not rest:
        raise UsageError(f"The command starts {interpreter} without a script or module to run.")
    form, target, arguments = Form.SCRIPT, rest[0], rest[1:]
    if target[:2] in ("-m", "-c"):
        form = Form.MODULE if target[:2] == "-m" else Form.TEXT
        joined, target = target[2:], target[2:]
        if not joined:
            if not arguments:
                raise UsageError(f"python {rest[0]} needs a value.")
            target, arguments = arguments[0], arguments[1:]
    elif target == "-":
        form, target = Form.TEXT, _standard_input()
        words = (*options, "-c", target, *arguments)
    elif not os.path.exists(target):
        raise UsageError(
            f"The script {target} does not exist (looked in {os.getcwd()}). "
            "Check the path after '--'."
        )
    return Program(
        argv=(interpreter, *words),
        form=form,
        target=target,
        arguments=arguments,
        interpreter=inspect_interpreter(interpreter),
        ordinary=all(option in _HARMLESS_OPTIONS for option in options)
        and (form is not Form.SCRIPT or os.path.isfile(target)),
    )


def _standard_input() -> str:
    """The program that `python -` reads, for every rank. Raises: UsageError if there is none."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "python - reads its program from the standard input, and nothing is redirected there. "
            "Name a script instead, or add < SCRIPT."
        )
    try:
        text = sys.stdin.read()
    except (OSError, ValueError) as error:
        raise UsageError(f"The standard input of python - cannot be read: {error}.") from error
    if not text.strip():
        raise UsageError("The standard input, from which python - reads its program, is empty.")
    return text


def _checked(program: Program) -> Program:
    if program.interpreter is not None:
        check_torch(program.interpreter)
    return program


def _other_program(words: Sequence[str]) -> Program:
    """A file whose first line names a Python is its script; anything else is executed."""
    path = _executable(words[0])
    interpreter = _first_line_interpreter(path)
    if interpreter is not None:
        return _checked(_python_program(interpreter, (path, *words[1:])))
    return Program((path, *words[1:]), Form.OTHER, os.path.basename(path), tuple(words[1:]), None)


def _executable(word: str) -> str:
    """The file a word names: a program of the simulated node, one in PATH or, failing that, beside
    our own interpreter.
    """
    places = (str(PROGRAMS), None, os.path.dirname(sys.executable))
    found = next(filter(None, (shutil.which(word, path=place) for place in places)), None)
    if found is None:
        raise UsageError(f"There is no program {word} in PATH. Check the command after '--'.")
    return found


def _launcher_interpreter(word: str) -> str:
    path = _executable(word)
    interpreter = _first_line_interpreter(path)
    if interpreter is None:
        raise UsageError(f"Cannot tell which interpreter {path} belongs to; use python -m instead.")
    return interpreter


def _first_line_interpreter(path: str) -> str | None:
    """The Python interpreter that a script's first line names, if it does."""
    with open(path, "rb") as file:
        start = file.read(4096).decode("utf-8", "replace").splitlines()[:2]
    if not start or not start[0].startswith("#!"):
        return None
    words = start[0][2:].split()
    # Installers write "#!/bin/sh" and then exec for an interpreter whose path is too long.
    if words[:1] == ["/bin/sh"] and len(start) > 1 and start[1].startswith("'''exec'"):
        words = shlex.split(start[1])[1:]
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words or not _PYTHON.fullmatch(os.path.basename(words[0])):
        return None
    return shutil.which(words[0])
