"""Which launcher a command calls, if it calls one."""

import re
from collections.abc import Callable, Mapping, Sequence

from phantora_py.launchers.captured import ACCELERATE, FABRIC, TUNE, Captured, parse_captured
from phantora_py.launchers.deepspeed import parse_deepspeed
from phantora_py.launchers.launch import FoundGpus, Launch
from phantora_py.launchers.mpirun import NAMES as MPIRUN_NAMES
from phantora_py.launchers.mpirun import parse_mpirun
from phantora_py.launchers.srun import parse_srun
from phantora_py.launchers.torchrun import parse_torchrun

_CAPTURED: Mapping[str, Captured] = {"accelerate": ACCELERATE, "fabric": FABRIC, "tune": TUNE}
_OF_PYTHON = ("torchrun", "deepspeed", *_CAPTURED, "accelerate-launch")
_MODULES: Mapping[str, tuple[str, ...]] = {
    "torch.distributed.run": ("torchrun",),
    "torch.distributed.launch": ("torch.distributed.launch",),
    "deepspeed.launcher.runner": ("deepspeed",),
    "deepspeed": ("deepspeed",),
    "accelerate.commands.launch": ("accelerate", "launch"),
    "accelerate.commands.accelerate_cli": ("accelerate",),
    "lightning.fabric.cli": ("fabric",),
}
"""What `python -m MODULE` stands for."""

NAMES = (*_OF_PYTHON, *MPIRUN_NAMES, "srun")
"""Programs that start ranks, as they are called."""

_VERBS = {name: launcher.verbs for name, launcher in _CAPTURED.items()}
"""Launchers that do other things, too, without these."""
_CALL = re.compile(
    r"(?:(?<![\w./-])|bin/)("
    + "|".join(
        re.escape(name) + (rf"\s+(?:{'|'.join(_VERBS[name])})" if name in _VERBS else "")
        for name in NAMES
    )
    + r")(?=[\s\"'])(?!\s*=)|-m\s*("
    + "|".join(map(re.escape, _MODULES))
    + r")(?![\w.])"
)
_NO_CALL = re.compile(r"\s*(#|echo\b|printf\b|cd\b|.*\binstall\b)")


def launcher_of_module(module: str) -> tuple[str, ...] | None:
    """The words that `python -m MODULE` stands for, None if it is no launcher."""
    return _MODULES.get(module)


def is_python_launcher(name: str) -> bool:
    """Whether the program of this name is a Python script whose first line names an interpreter."""
    return name in _OF_PYTHON


def is_launcher(name: str) -> bool:
    """Whether a program of this name starts ranks."""
    return name in NAMES


def read_launch(
    words: Sequence[str],
    environment: Mapping[str, str],
    interpreter: str,
    gpus: Callable[[], FoundGpus],
) -> Launch:
    """What a launcher's command asks for; `words[0]` is its name, without a directory.

    `interpreter` is that of a launcher in Python. Raises: UsageError.
    """
    name, arguments = words[0], words[1:]
    if name == "accelerate-launch":
        name, arguments = "accelerate", ("launch", *arguments)
    if name in _CAPTURED:
        return parse_captured(_CAPTURED[name], arguments, interpreter, gpus())
    if name == "deepspeed":
        return parse_deepspeed(arguments, environment)
    if name == "srun":
        return parse_srun(arguments, environment)
    if name in MPIRUN_NAMES:
        return parse_mpirun(arguments, environment, name)
    return parse_torchrun(arguments, environment, name == "torch.distributed.launch")


def called_launcher(text: str) -> str | None:
    """The first launcher that a shell script or a makefile calls, by what its lines say.

    Comments, what is printed and what is installed do not count.
    """
    for part in re.split(r"\n|&&|\|\||;", text):
        found = None if _NO_CALL.match(part) else _CALL.search(f"{part}\n")
        if found is not None:
            return found[1] or found[2]
    return None
