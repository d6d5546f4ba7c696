"""Starting a module of this installation as a process of its own."""

import sys
from pathlib import Path

import phantora_py

_RUN = """\
import runpy, sys
sys.path[0] = {path!r}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def module_command(module: str, *flags: str) -> list[str]:
    """The command for `module`, to be followed by its arguments. `flags`: of the interpreter.

    `python -m` looks into the working directory first, where a checkout of phantora without its
    compiled parts may lie.
    """
    path = str(Path(phantora_py.__file__).parent.parent)
    return [sys.executable, *flags, "-c", _RUN.format(path=path, module=module)]
