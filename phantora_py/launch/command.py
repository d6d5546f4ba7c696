"""Understands the user's command: what every rank is to run, and with which interpreter.

`torchrun ...` and `python -m torch.distributed.run ...` (or `.launch`) are taken
apart; any other command is what each rank runs.
"""

import enum
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import phantora_py
from phantora_py.launch.interpreter import Interpreter, Torch, check_torch, inspect_interpreter
from phantora_py.launch.torchrun import TorchrunCommand, parse_torchrun
from sim_server.errors import UsageError

PROGRAMS = Path(phantora_py.__file__).parent / "rank" / "bin"
"""What a simulated node has instead of this machine's."""
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
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
    """The user's command, understood. `torchrun` is None for a command that starts one rank."""

    words: tuple[str, ...]
    program: Program
    torchrun: TorchrunCommand | None

    def __str__(self) -> str:
        return shlex.join(self.words)


def understand(words: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Takes the words after `--` apart and checks that the program can be started.

    Raises: UsageError for a missing program or script, or an interpreter without a supported torch.
    """
    if not words:
        raise UsageError("No command was given. Usage: phantora run [OPTIONS] -- COMMAND ...")
    name = os.path.basename(words[0])
    if name == "torchrun":
        interpreter = environment.get("PYTHON_EXEC") or _torchrun_interpreter(words[0])
        return _from_torchrun(words, words[1:], interpreter, environment)
    if _PYTHON.fullmatch(name):
        program = _python_program(_executable(words[0]), words[1:])
        if program.form is Form.MODULE and program.target in _TORCHRUN_MODULES:
            launch = program.target.endswith(".launch")
            return _from_torchrun(words, program.arguments, program.argv[0], environment, launch)
        return Command(tuple(words), _checked(program), None)
    return Command(tuple(words), _other_program(words), None)


def _from_torchrun(
    words: Sequence[str],
    arguments: Sequence[str],
    interpreter: str,
    environment: Mapping[str, str],
    launch: bool = False,
) -> Command:
    torchrun = parse_torchrun(arguments, environment, launch)
    if torchrun.python:
        mode = ("-m",) if torchrun.module else ()
        program = _checked(_python_program(interpreter, ("-u", *mode, *torchrun.program)))
    else:
        program = _other_program(torchrun.program)
    return Command(tuple(words), program, torchrun)


def _python_program(interpreter: str, words: Sequence[str]) -> Program:
    """Takes `python [options] [-m module | -c text | script] arguments` apart."""
    options: list[str] = []
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "-":
        word = words[position]
        if word[:2] in ("-m", "-c"):
            break
        options.append(word)
        position += 2 if word in _VALUE_OPTIONS else 1
    rest = tuple(words[position:])
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


def _torchrun_interpreter(word: str) -> str:
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
